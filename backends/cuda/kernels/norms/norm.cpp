// Which norms the row kernels serve, and their operands by position
// (core/operators/layers/normalization).
#include "backends/cuda/kernels/norms/norm.h"

#include "backends/cuda/cuda_kernel.h"
#include "backends/cuda/kernels/shared/column_sums_launch.h"
#include "backends/cuda/kernels/shared/families.h"
#include "backends/cuda/kernels/shared/launch.h"
#include "backends/cuda/kernels/shared/member_calls.h"
#include "backends/cuda/kernels/shared/tables.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

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
std::optional<NormGradInputArguments> grad_add_arguments(const KernelContext& norm,
                                                         const KernelContext& add,
                                                         const CudaContext& device) {
  const KernelOperand& other = add.in[add.in[0].data == nullptr ? 1 : 0];
  const bool wants_dx = norm.out[0].data != nullptr;
  if (wants_dx || other.data == nullptr || other.local != norm.in[0].local ||
      add.out[0].local != norm.in[0].local)
    return std::nullopt;
  NormGradInputArguments arguments = grad_input_arguments(norm, device);
  arguments.other = other.data;
  arguments.dx = add.out[0].data;
  arguments.adds_dx = add.accumulate[0];
  return arguments;
}

std::unique_ptr<CudaKernel> make_grad_add(const KernelContext& call, CudaContext& device) {
  MemberCalls members(call);
  const auto arguments = grad_add_arguments(members[0], members[1], device);
  return arguments ? cuda_launch(enqueue_norm_grad_input, *arguments) : nullptr;
}

// Whether both gradients are of one norm and one dy: `weight` reads x[, mean], rstd, dy, `input`
// gamma behind x.
bool are_of_one_norm(const KernelContext& weight, const KernelContext& input) {
  if (weight.in.size() + 1 != input.in.size() || weight.in[0].data != input.in[0].data)
    return false;
  for (std::size_t i = 1; i < weight.in.size(); ++i)
    if (weight.in[i].data != input.in[i + 1].data) return false;
  return true;
}

// For the input, perhaps with an addition; of the weights; perhaps the sums of the rows of what
// comes out. In one pass, or in as many as kernels of less take.
std::unique_ptr<CudaKernel> make_gradients(const KernelContext& call, CudaContext& device) {
  MemberCalls members(call);
  const std::size_t count = call.actor->members.size();
  const bool adds = count > 2;
  const KernelContext &input = members[0], &weight = members[adds ? 2 : 1];
  const KernelContext* const sum = count > 3 ? &members[3] : nullptr;
  const auto of_input = adds ? grad_add_arguments(input, members[1], device)
                             : std::optional(grad_input_arguments(input, device));
  if (!of_input || !are_of_one_norm(weight, input) || of_input->dx == nullptr) return nullptr;
  const TensorType row{Shape{of_input->length}, DType::kF32};
  NormGradientsArguments all = {.input = *of_input};
  all.dgamma = weight.out[0].data;
  all.adds_dgamma = weight.accumulate[0];
  if (of_input->is_centred) {
    all.dbeta = weight.out[1].data;
    all.adds_dbeta = weight.accumulate[1];
  }
  if (sum != nullptr) {
    all.dx_sum = sum->out[0].data;
    all.adds_dx_sum = sum->accumulate[0];
  }
  all.scratch = device.workspace();
  all.scratch_bytes = CudaContext::kWorkspaceBytes;
  const bool sums_rows = sum == nullptr || sum->out[0].local == row;
  if (sums_rows && has_norm_gradients(all)) return cuda_launch(enqueue_norm_gradients, all);
  std::vector<std::unique_ptr<CudaKernel>> kernels;
  kernels.push_back(make_norm_grad_weight(weight, device));
  kernels.push_back(cuda_launch(enqueue_norm_grad_input, *of_input));
  if (sum != nullptr) kernels.push_back(cuda_kernels().make(*sum, device));
  if (kernels.back() == nullptr) return nullptr;
  return in_sequence(std::move(kernels));
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
  for (const char* kind : {"layer_norm_grads", "rms_norm_grads", "layer_norm_grads_add",
                           "rms_norm_grads_add", "layer_norm_grads_add_bias"})
    table.add(kind, make_gradients);
}

}  // namespace sextant
