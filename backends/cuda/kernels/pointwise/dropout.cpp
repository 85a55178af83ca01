// Dropout alone, and with the additions around it (bias_dropout_add, dropout_add).
#include "backends/cuda/kernels/pointwise/dropout.h"

#include "backends/cuda/cuda_context.h"
#include "backends/cuda/cuda_kernel.h"
#include "backends/cuda/kernels/pointwise/chain.h"
#include "backends/cuda/kernels/pointwise/strided_operands.h"
#include "backends/cuda/kernels/shared/families.h"
#include "backends/cuda/kernels/shared/launch.h"
#include "backends/cuda/row_major.h"
#include "core/base/counter_rng.h"

#include <cmath>

namespace sextant {
namespace {

// `x`: an operand with the box of what is dropped.
DropoutMask mask_of(const KernelContext& call, const Attributes& dropout, const KernelOperand& x,
                    const CudaContext& device) {
  DropoutMask mask;
  mask.seed = call.seed;
  mask.stream = CounterRng(call.seed, dropout.text("stream")).stream();
  mask.layer = call.act.layer;
  mask.micro_batch = dropout.boolean_or("per_step", false) ? 0 : call.act.micro_batch;
  mask.step = device.step();
  // Of the upper 53 bits k is kept with (k + 1) 2^-53 > rate; the product is exact. The lower 11
  // say nothing then.
  const double rate = dropout.real("rate");
  mask.keeps_any = rate < 1;
  if (mask.keeps_any) mask.least = static_cast<std::uint64_t>(std::floor(rate * 0x1p53)) << 11;
  mask.first_index = first_global_index(x.layout->global.shape, x.box);
  return mask;
}

void set_operands(const KernelOperand& x, const KernelOperand* bias, const KernelOperand* residual,
                  bool aligned, DropoutArguments& arguments) {
  const Shape& output = x.local.shape;
  const KernelOperand* in[3] = {&x, bias != nullptr ? bias : &x,
                                residual != nullptr ? residual : &x};
  const std::vector<std::int64_t> index = row_major_strides(x.layout->global.shape.extents());
  arguments.dtype = x.local.dtype;
  const OperandRuns runs =
      runs_of(in, output, aligned, 16 / size_of(arguments.dtype).value, std::span(&index, 1));
  arguments.in[DropoutArguments::kX] = x.data;
  if (bias != nullptr) arguments.in[DropoutArguments::kBias] = bias->data;
  if (residual != nullptr) arguments.in[DropoutArguments::kResidual] = residual->data;
  arguments.elements = output.elements();
  arguments.strides = runs.strides;
  arguments.falls_into_packs =
      runs.falls_into_packs && x.layout->global.shape.elements() <= UINT32_MAX;
  arguments.is_one_run = arguments.falls_into_packs && runs.is_one_run &&
                         runs.strides.strides[DropoutArguments::kIndex][0] == 1;
}

void set_scale(const Attributes& dropout, DropoutArguments& arguments) {
  const double rate = dropout.real("rate");
  arguments.scale = rate < 1 ? 1 / (1 - rate) : 0.0;
}

std::unique_ptr<CudaKernel> make_dropout(const KernelContext& call, CudaContext& device) {
  DropoutArguments arguments;
  arguments.mask = mask_of(call, call.attributes(), call.in[0], device);
  set_scale(call.attributes(), arguments);
  arguments.out[1] = call.out[0].data;
  arguments.accumulate[1] = call.accumulate[0];
  set_operands(call.in[0], nullptr, nullptr, has_aligned_data(call.out[0]), arguments);
  return cuda_launch(enqueue_dropout, arguments);
}

// The members in order: bias_add perhaps, dropout, add.
std::unique_ptr<CudaKernel> make_chain(const KernelContext& call, CudaContext& device) {
  const Chain chain(call);
  const std::size_t dropout = chain.size() - 2, add = chain.size() - 1;
  const bool has_bias = dropout == 1;
  const KernelOperand* x = chain.input(0, 0);
  const KernelOperand* bias = has_bias ? chain.input(0, 1) : nullptr;
  const KernelOperand* residual = chain.input(add, 1 - chain.link(add));
  if (x == nullptr || residual == nullptr || (has_bias && bias == nullptr)) return nullptr;
  if (chain.output_shape() != x->local.shape) return nullptr;
  DropoutArguments arguments;
  const Attributes& attributes = chain.member(dropout).attributes;
  arguments.mask = mask_of(call, attributes, *x, device);
  set_scale(attributes, arguments);
  for (std::size_t member = 0; member < chain.size(); ++member) {
    const std::size_t result = member + 3 - chain.size();
    arguments.out[result] = chain.output(member);
    arguments.accumulate[result] = chain.accumulates(member);
  }
  set_operands(*x, bias, residual, chain.outputs_are_aligned(), arguments);
  return cuda_launch(enqueue_dropout, arguments);
}

}  // namespace

void add_cuda_dropout(CudaKernelTable& table) {
  table.add("dropout", make_dropout);
  table.add("dropout_add", make_chain);
  table.add("bias_dropout_add", make_chain);
}

}  // namespace sextant
