// Which norms the row kernels serve, and their operands by position
// (core/operators/layers/normalization).
#include "backends/cuda/kernels/norms/norm.h"

#include "backends/cuda/cuda_kernel.h"
#include "backends/cuda/kernels/shared/column_sums_launch.h"
#include "backends/cuda/kernels/shared/families.h"
#include "backends/cuda/kernels/shared/launch.h"
#include "backends/cuda/kernels/shared/member_calls.h"

#include <algorithm>

namespace sextant {
namespace {

template <typename Arguments>
void set_rows(Arguments& arguments, const TensorType& x) {
  arguments.dtype = x.dtype;
  arguments.length = x.shape.rank() == 0 ? 1 : x.shape[x.shape.rank() - 1];
  arguments.rows = 1;
  for (std::size_t dim = 0; dim + 1 < x.shape.rank(); ++dim) arguments.rows *= x.shape[dim];
}

// x, gamma[, beta] -> y[, mean], rstd.
NormArguments norm_arguments(const KernelContext& call, const CudaContext& device) {
  NormArguments arguments;
  set_rows(arguments, call.in[0].local);
  arguments.is_centred = call.in.size() == 3;
  arguments.epsilon = call.attributes().real("epsilon");
  arguments.in_company = device.in_company();
  arguments.x = call.in[0].data;
  arguments.gamma = call.in[1].data;
  arguments.y = call.out[0].data;
  arguments.rstd = call.out.back().data;
  arguments.adds_y = call.accumulate[0];
  arguments.adds_rstd = call.accumulate.back();
  if (arguments.is_centred) {
    arguments.beta = call.in[2].data;
    arguments.mean = call.out[1].data;
    arguments.adds_mean = call.accumulate[1];
  }
  return arguments;
}

std::unique_ptr<CudaKernel> make_norm(const KernelContext& call, CudaContext& device) {
  return cuda_launch(enqueue_norm, norm_arguments(call, device));
}

// x, gamma[, mean], rstd, dy -> dx.
NormGradInputArguments grad_input_arguments(const KernelContext& call, const CudaContext& device) {
  NormGradInputArguments arguments;
  arguments.in_company = device.in_company();
  set_rows(arguments, call.in[0].local);
  arguments.is_centred = call.in.size() == 5;
  arguments.x = call.in[0].data;
  arguments.gamma = call.in[1].data;
  if (arguments.is_centred) arguments.mean = call.in[2].data;
  arguments.rstd = call.in[call.in.size() - 2].data;
  arguments.dy = call.in.back().data;
  arguments.dx = call.out[0].data;
  arguments.adds_dx = call.accumulate[0];
  return arguments;
}

std::unique_ptr<CudaKernel> make_norm_grad_input(const KernelContext& call, CudaContext& device) {
  return cuda_launch(enqueue_norm_grad_input, grad_input_arguments(call, device));
}

// x[, mean], rstd, dy -> dgamma[, dbeta].
std::unique_ptr<CudaKernel> make_norm_grad_weight(const KernelContext& call, CudaContext& device) {
  NormGradWeightArguments arguments;
  set_rows(arguments, call.in[0].local);
  arguments.is_centred = call.in.size() == 4;
  arguments.x = call.in[0].data;
  if (arguments.is_centred) arguments.mean = call.in[1].data;
  arguments.rstd = call.in[call.in.size() - 2].data;
  arguments.dy = call.in.back().data;
  arguments.dgamma = call.out[0].data;
  arguments.adds_dgamma = call.accumulate[0];
  if (arguments.is_centred) {
    arguments.dbeta = call.out[1].data;
    arguments.adds_dbeta = call.accumulate[1];
  }
  arguments.pack = std::min(column_pack(call.in.front(), arguments.length),
                            column_pack(call.in.back(), arguments.length));
  return cuda_column_sums(
      enqueue_norm_grad_weight, arguments, device,
      ColumnSums(arguments.rows, arguments.length, arguments.pack, arguments.is_centred ? 2 : 1));
}

// add, then a norm of the sum.
std::unique_ptr<CudaKernel> make_add_norm(const KernelContext& call, CudaContext& device) {
  MemberCalls members(call);
  KernelContext &add = members[0], &norm = members[1];
  const bool stretches = add.in[0].local != add.in[1].local;
  if (stretches || norm.out[0].local != add.in[0].local || add.accumulate[0]) return nullptr;
  norm.in[0] = add.in[0];
  NormArguments arguments = norm_arguments(norm, device);
  arguments.other = add.in[1].data;
  arguments.sum = add.out[0].data;
  return cuda_launch(enqueue_norm, arguments);
}

// A norm's gradient for its input, then an addition.
std::unique_ptr<CudaKernel> make_grad_add(const KernelContext& call, CudaContext& device) {
  MemberCalls members(call);
  const KernelContext &norm = members[0], &add = members[1];
  const KernelOperand& other = add.in[add.in[0].data == nullptr ? 1 : 0];
  const bool wants_dx = norm.out[0].data != nullptr;
  if (wants_dx || other.data == nullptr || other.local != norm.in[0].local ||
      add.out[0].local != norm.in[0].local)
    return nullptr;
  NormGradInputArguments arguments = grad_input_arguments(norm, device);
  arguments.other = other.data;
  arguments.dx = add.out[0].data;
  arguments.adds_dx = add.accumulate[0];
  return cuda_launch(enqueue_norm_grad_input, arguments);
}

}  // namespace

void add_cuda_norm(CudaKernelTable& table) {
  table.add("layer_norm", make_norm);
  table.add("rms_norm", make_norm);
  table.add("layer_norm_grad_input", make_norm_grad_input);
  table.add("rms_norm_grad_input", make_norm_grad_input);
  table.add("layer_norm_grad_weight", make_norm_grad_weight);
  table.add("rms_norm_grad_weight", make_norm_grad_weight);
  table.add("add_layer_norm", make_add_norm);
  table.add("add_rms_norm", make_add_norm);
  table.add("layer_norm_grad_add", make_grad_add);
  table.add("rms_norm_grad_add", make_grad_add);
}

}  // namespace sextant
