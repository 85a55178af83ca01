// Mixture of experts, callable from C++. Tokens [G, T, h], choices [G, T, k], places [E, G, C, h].
#pragma once

#include "core/base/dtype.h"

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace sextant {

struct CudaTopK {
  const void* x = nullptr;
  void* values = nullptr;
  std::int32_t* indices = nullptr;
  DType type = DType::kF32;
  std::int64_t rows = 0, classes = 0, k = 0;
  bool adds_values = false, adds_indices = false;
};
cudaError_t enqueue_top_k(const CudaTopK& top_k, cudaStream_t stream);

struct CudaTopKGrad {
  const void* indices = nullptr;
  bool is_wide = false;  // indices are i64, not i32
  const void* dvalues = nullptr;
  void* dx = nullptr;
  DType type = DType::kF32, to_type = DType::kF32;
  std::int64_t rows = 0, classes = 0, k = 0;
  bool accumulate = false;
};
cudaError_t enqueue_top_k_grad(const CudaTopKGrad& grad, cudaStream_t stream);

struct CudaExpertPosition {
  const void* experts = nullptr;
  bool is_wide = false;
  std::int32_t* positions = nullptr;
  std::int64_t groups = 0, per_group = 0, num_experts = 0;
  bool accumulate = false;
};
cudaError_t enqueue_expert_position(const CudaExpertPosition& position, cudaStream_t stream);

// The choices whose places lie in a box of places: experts from `first_expert`, positions from
// `first_place` on.
struct CudaRouting {
  const void* experts = nullptr;
  const void* positions = nullptr;
  bool has_wide_experts = false, has_wide_positions = false;
  std::int64_t groups = 0, tokens = 0, choices = 0;  // choices of one token
  std::int64_t first_expert = 0, num_experts = 0;
  std::int64_t first_place = 0, capacity = 0;
  std::int64_t hidden = 0;
};

// Between which choices of its group those lie that fill a place: the first and the last of them,
// by number in the group; first > last: none do.
struct ChoicesOfPlace {
  std::int32_t first, last;
};
// Of [E, G, C]. A dispatch that has them visits each choice once; without them it looks through all
// choices of the group for every place.
std::size_t bytes_of_choices(const CudaRouting& routing);

struct CudaMoe {
  CudaRouting routing;
  ChoicesOfPlace* choices_of_places = nullptr;  // scratch of dispatch, or none
  const void* tokens = nullptr;                 // x of dispatch, d of the gradient of weights
  const void* places = nullptr;                 // y of combine and of the gradient of weights
  const void* weights = nullptr;                // or none: 1
  void* to = nullptr;
  DType type = DType::kF32, to_type = DType::kF32;
  bool accumulate = false;
};
cudaError_t enqueue_moe_dispatch(const CudaMoe& moe, cudaStream_t stream);
cudaError_t enqueue_moe_combine(const CudaMoe& moe, cudaStream_t stream);
cudaError_t enqueue_moe_weight_grad(const CudaMoe& moe, cudaStream_t stream);

}  // namespace sextant
