// Which fused chains have a pass of their own. Where operands do not fall into packs, the members
// run.
#include "backends/cuda/kernels/pointwise/chains.h"

#include "backends/cuda/cuda_kernel.h"
#include "backends/cuda/kernels/pointwise/chain.h"
#include "backends/cuda/kernels/pointwise/strided_operands.h"
#include "backends/cuda/kernels/shared/families.h"
#include "backends/cuda/kernels/shared/launch.h"

#include <algorithm>
#include <vector>

namespace sextant {
namespace {

// Members of one dtype whose results, but for what only members see, have one shape; `in` in the
// order of ChainFunction.
std::unique_ptr<CudaKernel> make_chain(const Chain& chain, ChainFunction function,
                                       const std::vector<const KernelOperand*>& in) {
  if (std::find(in.begin(), in.end(), nullptr) != in.end()) return nullptr;
  const Shape& output = chain.output_shape();
  ChainArguments arguments;
  arguments.function = function;
  arguments.dtype = chain.type(0).dtype;
  for (std::size_t i = 0; i < in.size(); ++i) {
    if (in[i]->local.dtype != arguments.dtype) return nullptr;
    arguments.in[i] = in[i]->data;
  }
  for (std::size_t member = 0; member < chain.size(); ++member) {
    if (chain.type(member).dtype != arguments.dtype) return nullptr;
    arguments.out[member] = chain.output(member);
    arguments.accumulate[member] = chain.accumulates(member);
  }
  const OperandRuns runs =
      runs_of(in, output, chain.outputs_are_aligned(), 16 / size_of(arguments.dtype).value);
  if (!runs.is_one_run && !runs.falls_into_packs) return nullptr;
  arguments.elements = output.elements();
  arguments.strides = runs.strides;
  arguments.is_one_run = runs.is_one_run;
  return cuda_launch(enqueue_chain, arguments);
}

std::unique_ptr<CudaKernel> make_bias_gelu(const KernelContext& call, CudaContext& /*device*/) {
  const Chain chain(call);
  const bool has_tanh = chain.member(1).attributes.text("approximate") == "tanh";
  return make_chain(chain, has_tanh ? ChainFunction::kBiasGeluTanh : ChainFunction::kBiasGelu,
                    {chain.input(0, 0), chain.input(0, 1)});
}

std::unique_ptr<CudaKernel> make_silu_mul(const KernelContext& call, CudaContext& /*device*/) {
  const Chain chain(call);
  const KernelOperand* x = chain.input(0, 0);
  if (x == nullptr || x->local.shape != chain.output_shape()) return nullptr;  // silu(x) stretches
  return make_chain(chain, ChainFunction::kSiluMul, {x, chain.input(1, 1 - chain.link(1))});
}

std::unique_ptr<CudaKernel> make_mul_silu_grad(const KernelContext& call, CudaContext& /*device*/) {
  const Chain chain(call);
  return make_chain(chain, ChainFunction::kMulSiluGrad,
                    {chain.input(0, 0), chain.input(0, 1), chain.input(1, 0)});
}

std::unique_ptr<CudaKernel> make_mul_mul_silu_grad(const KernelContext& call,
                                                   CudaContext& /*device*/) {
  const Chain chain(call);
  if (call.out[0].local.shape != chain.output_shape()) return nullptr;
  return make_chain(chain, ChainFunction::kMulMulSiluGrad,
                    {chain.input(0, 0), chain.input(0, 1), chain.input(1, 1), chain.input(2, 0)});
}

double factor_of(const ActorMember& member) {
  return member.kind == "scale" ? member.attributes.real("factor") : 1.0;
}

// Casts and scalings; the result between them has no readers outside.
std::unique_ptr<CudaKernel> make_cast_chain(const KernelContext& call, CudaContext& /*device*/) {
  const Chain chain(call);
  if (chain.output(0) != nullptr) return nullptr;
  CastChainArguments arguments;
  arguments.from = call.in[0].local.dtype;
  arguments.middle = chain.type(0).dtype;
  arguments.to = chain.type(1).dtype;
  for (const DType dtype : {arguments.from, arguments.middle, arguments.to})
    if (!is_floating(dtype)) return nullptr;
  arguments.first = factor_of(chain.member(0));
  arguments.second = factor_of(chain.member(1));
  arguments.in = call.in[0].data;
  arguments.out = chain.output(1);
  arguments.accumulate = chain.accumulates(1);
  arguments.aligned = has_aligned_data(call.in[0]) && chain.outputs_are_aligned();
  arguments.elements = chain.output_shape().elements();
  return cuda_launch(enqueue_cast_chain, arguments);
}

}  // namespace

void add_cuda_chains(CudaKernelTable& table) {
  table.add("bias_gelu", make_bias_gelu);
  table.add("silu_mul", make_silu_mul);
  table.add("mul_silu_grad", make_mul_silu_grad);
  table.add("mul_mul_silu_grad", make_mul_mul_silu_grad);
  for (const char* kind : {"cast_scale", "scale_cast", "cast_cast"})
    table.add(kind, make_cast_chain);
}

}  // namespace sextant
