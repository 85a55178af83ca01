// Which operators the kernels of mixtures of experts serve.
#include "backends/cuda/kernels/lookup/moe.h"

#include "backends/cuda/cuda_context.h"
#include "backends/cuda/cuda_kernel.h"
#include "backends/cuda/kernels/shared/families.h"
#include "backends/cuda/kernels/shared/launch.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>

namespace sextant {
namespace {

using Made = std::unique_ptr<CudaKernel>;

bool is_wide(const KernelOperand& operand) { return operand.local.dtype == DType::kI64; }

std::int64_t last_extent(const KernelOperand& operand) {
  const Shape& shape = operand.local.shape;
  return shape[shape.rank() - 1];
}

std::int64_t rows_of_tokens(const KernelOperand& operand) {
  const Shape& shape = operand.local.shape;
  std::int64_t rows = 1;
  for (std::size_t dim = 0; dim + 1 < shape.rank(); ++dim) rows *= shape[dim];
  return rows;
}

Made make_top_k(const KernelContext& call, CudaContext& /*device*/) {
  if (call.out[0].local.dtype != call.in[0].local.dtype || call.out[1].local.dtype != DType::kI32)
    return nullptr;
  CudaTopK top_k;
  top_k.x = call.in[0].data;
  top_k.values = call.out[0].data;
  top_k.indices = data_of<std::int32_t>(call.out[1]);
  top_k.type = call.in[0].local.dtype;
  top_k.rows = rows_of_tokens(call.in[0]);
  top_k.classes = last_extent(call.in[0]);
  top_k.k = last_extent(call.out[0]);
  top_k.adds_values = call.accumulate[0];
  top_k.adds_indices = call.accumulate[1];
  return cuda_launch(enqueue_top_k, top_k);
}

Made make_top_k_grad(const KernelContext& call, CudaContext& /*device*/) {
  CudaTopKGrad grad;
  grad.indices = call.in[0].data;
  grad.is_wide = is_wide(call.in[0]);
  grad.dvalues = call.in[1].data;
  grad.dx = call.out[0].data;
  grad.type = call.in[1].local.dtype;
  grad.to_type = call.out[0].local.dtype;
  grad.rows = rows_of_tokens(call.out[0]);
  grad.classes = last_extent(call.out[0]);
  grad.k = last_extent(call.in[0]);
  grad.accumulate = call.accumulate[0];
  return cuda_launch(enqueue_top_k_grad, grad);
}

Made make_expert_position(const KernelContext& call, CudaContext& /*device*/) {
  const Shape& shape = call.in[0].local.shape;
  CudaExpertPosition position;
  position.experts = call.in[0].data;
  position.is_wide = is_wide(call.in[0]);
  position.positions = data_of<std::int32_t>(call.out[0]);
  position.groups = shape[0];
  position.per_group = shape[1] * shape[2];
  position.num_experts = call.attributes().integer("experts");
  position.accumulate = call.accumulate[0];
  return cuda_launch(enqueue_expert_position, position);
}

// `places` is [E, G, C, h]; experts, positions are inputs `first` and the next.
CudaMoe moe_of(const KernelContext& call, const KernelOperand& places, std::size_t first) {
  const KernelOperand &experts = call.in[first], &positions = call.in[first + 1];
  const Shape &choices = experts.local.shape, &shape = places.local.shape;
  CudaMoe moe;
  moe.routing.experts = experts.data;
  moe.routing.has_wide_experts = is_wide(experts);
  moe.routing.positions = positions.data;
  moe.routing.has_wide_positions = is_wide(positions);
  moe.routing.groups = choices[0];
  moe.routing.tokens = choices[1];
  moe.routing.choices = choices[2];
  moe.routing.first_expert = places.box.dims[0].offset;
  moe.routing.num_experts = shape[0];
  moe.routing.first_place = places.box.dims[2].offset;
  moe.routing.capacity = shape[2];
  moe.routing.hidden = shape[3];
  moe.to = call.out[0].data;
  moe.type = call.in[0].local.dtype;
  moe.to_type = call.out[0].local.dtype;
  moe.accumulate = call.accumulate[0];
  return moe;
}

// Weights are of the type of what they multiply, as the operators infer.
bool set_weights(const KernelContext& call, CudaMoe& moe) {
  if (call.in.size() < 4) return true;
  moe.weights = call.in[3].data;
  return call.in[3].local.dtype == moe.type;
}

Made make_dispatch(const KernelContext& call, CudaContext& device) {
  CudaMoe moe = moe_of(call, call.out[0], 1);
  if (!set_weights(call, moe)) return nullptr;
  moe.tokens = call.in[0].data;
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  if (moe.routing.tokens * moe.routing.choices <= kMost &&
      bytes_of_choices(moe.routing) <= CudaContext::kWorkspaceBytes)
    moe.choices_of_places = static_cast<ChoicesOfPlace*>(device.workspace());
  return cuda_launch(enqueue_moe_dispatch, moe);
}

Made make_combine(const KernelContext& call, CudaContext& /*device*/) {
  CudaMoe moe = moe_of(call, call.in[0], 1);
  if (!set_weights(call, moe)) return nullptr;
  moe.places = call.in[0].data;
  return cuda_launch(enqueue_moe_combine, moe);
}

Made make_weight_grad(const KernelContext& call, CudaContext& /*device*/) {
  if (call.in[0].local.dtype != call.in[1].local.dtype) return nullptr;
  CudaMoe moe = moe_of(call, call.in[0], 2);
  moe.places = call.in[0].data;
  moe.tokens = call.in[1].data;
  return cuda_launch(enqueue_moe_weight_grad, moe);
}

}  // namespace

void add_cuda_moe(CudaKernelTable& table) {
  table.add("top_k", make_top_k);
  table.add("top_k_grad", make_top_k_grad);
  table.add("expert_position", make_expert_position);
  table.add("moe_dispatch", make_dispatch);
  table.add("moe_combine", make_combine);
  table.add("moe_weight_grad", make_weight_grad);
}

}  // namespace sextant
