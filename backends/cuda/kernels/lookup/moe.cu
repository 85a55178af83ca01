// Tokens to the places of experts and back. Positions: a block per group and expert walks the
// choices of the group and counts its own. Dispatch: every choice notes itself at its place, then a
// block per place (and 1024 of its elements) looks for those that fill it between the first and the
// last: as a rule one. Combine: a thread per element of a token. Gradient of weights: a warp per
// choice. No atomics but on the first and the last: what a block writes it has gathered itself, in
// the order of choices.
#include "backends/cuda/kernels/lookup/matches.cuh"
#include "backends/cuda/kernels/lookup/moe.h"
#include "backends/cuda/kernels/shared/elements.cuh"
#include "backends/cuda/kernels/shared/grid.h"
#include "backends/cuda/kernels/shared/numbers.cuh"
#include "backends/cuda/kernels/shared/reduce.cuh"

#include <limits>

namespace sextant {
namespace {

constexpr int kThreads = 256;
constexpr int kColumns = 4;  // elements of a place per thread

__device__ __forceinline__ std::int64_t integer(const void* data, bool is_wide, std::int64_t at) {
  return is_wide ? static_cast<const std::int64_t*>(data)[at]
                 : static_cast<const std::int32_t*>(data)[at];
}

__global__ void __launch_bounds__(kThreads) expert_position(CudaExpertPosition x) {
  __shared__ MatchList<kThreads> matches;
  const auto put = [&](std::int64_t at, std::int64_t position) {
    const auto value = static_cast<std::int32_t>(position);
    x.positions[at] = x.accumulate ? x.positions[at] + value : value;
  };
  const std::int64_t tasks = x.groups * x.num_experts;
  for (std::int64_t task = blockIdx.x; task < tasks; task += gridDim.x) {
    const std::int64_t group = task / x.num_experts, expert = task - group * x.num_experts;
    std::int64_t taken = 0;
    for (std::int64_t first = 0; first < x.per_group; first += kThreads) {
      const bool is_choice = first + threadIdx.x < x.per_group;
      const std::int64_t base = group * x.per_group + first;
      const std::int64_t chosen =
          is_choice ? integer(x.experts, x.is_wide, base + threadIdx.x) : -1;
      matches.find(is_choice && chosen == expert);
      if (static_cast<int>(threadIdx.x) < matches.count)
        put(base + matches.at[threadIdx.x], taken + threadIdx.x);
      taken += matches.count;
      // Choices of no expert have no place.
      if (expert == 0 && is_choice && (chosen < 0 || chosen >= x.num_experts))
        put(base + threadIdx.x, -1);
    }
  }
}

// Row of [E, G, C] that a choice fills, -1 for none here.
__device__ __forceinline__ std::int64_t place_of(const CudaRouting& r, std::int64_t choice,
                                                 std::int64_t group) {
  const std::int64_t expert = integer(r.experts, r.has_wide_experts, choice) - r.first_expert;
  const std::int64_t place = integer(r.positions, r.has_wide_positions, choice) - r.first_place;
  if (expert < 0 || expert >= r.num_experts || place < 0 || place >= r.capacity) return -1;
  return (expert * r.groups + group) * r.capacity + place;
}

constexpr ChoicesOfPlace kNoChoices{std::numeric_limits<std::int32_t>::max(), -1};

__global__ void __launch_bounds__(kThreads)
    forget_choices(ChoicesOfPlace* places, std::int64_t count) {
  const std::int64_t stride = std::int64_t{gridDim.x} * kThreads;
  for (std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x; i < count; i += stride)
    places[i] = kNoChoices;
}

__global__ void __launch_bounds__(kThreads) note_choices(CudaMoe x) {
  const std::int64_t per_group = x.routing.tokens * x.routing.choices;
  const std::int64_t count = x.routing.groups * per_group;
  const std::int64_t stride = std::int64_t{gridDim.x} * kThreads;
  for (std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x; i < count; i += stride) {
    const std::int64_t group = i / per_group, row = place_of(x.routing, i, group);
    if (row < 0) continue;
    const auto number = static_cast<std::int32_t>(i - group * per_group);
    atomicMin(&x.choices_of_places[row].first, number);
    atomicMax(&x.choices_of_places[row].last, number);
  }
}

template <typename T>
__device__ __forceinline__ Wide<T> weight_of(const CudaMoe& x, std::int64_t choice) {
  return x.weights == nullptr ? Wide<T>(1) : widen(static_cast<const T*>(x.weights)[choice]);
}

template <typename T>
__global__ void __launch_bounds__(kThreads) dispatch(CudaMoe x, std::int64_t tiles) {
  __shared__ MatchList<kThreads> matches;
  const CudaRouting& r = x.routing;
  const std::int64_t per_group = r.tokens * r.choices;
  const std::int64_t tasks = r.num_experts * r.groups * r.capacity * tiles;
  for (std::int64_t task = blockIdx.x; task < tasks; task += gridDim.x) {
    const std::int64_t row = task / tiles;
    const std::int64_t first_column = (task - row * tiles) * kThreads * kColumns + threadIdx.x;
    const std::int64_t group = row / r.capacity % r.groups;
    Wide<T> sums[kColumns] = {};
    std::int64_t begin = 0, end = per_group;
    if (x.choices_of_places != nullptr) {
      const ChoicesOfPlace of_place = x.choices_of_places[row];
      begin = of_place.first;
      end = std::int64_t{of_place.last} + 1;
    }
    for (std::int64_t first = begin; first < end; first += kThreads) {
      const std::int64_t base = group * per_group + first;
      matches.find(first + threadIdx.x < end && place_of(r, base + threadIdx.x, group) == row);
      for (int m = 0; m < matches.count; ++m) {
        const std::int64_t choice = base + matches.at[m];
        const Wide<T> weight = weight_of<T>(x, choice);
        const T* token = static_cast<const T*>(x.tokens) + choice / r.choices * r.hidden;
#pragma unroll
        for (int c = 0; c < kColumns; ++c)
          if (first_column + c * kThreads < r.hidden)
            sums[c] += weight * widen(token[first_column + c * kThreads]);
      }
    }
#pragma unroll
    for (int c = 0; c < kColumns; ++c)
      if (first_column + c * kThreads < r.hidden)
        put_number(x.to_type, x.to, row * r.hidden + first_column + c * kThreads, sums[c],
                   x.accumulate);
  }
}

template <typename T>
__global__ void __launch_bounds__(kThreads) combine(CudaMoe x) {
  const CudaRouting& r = x.routing;
  const std::int64_t count = r.groups * r.tokens * r.hidden;
  const std::int64_t stride = std::int64_t{gridDim.x} * kThreads;
  for (std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x; i < count; i += stride) {
    const std::int64_t token = i / r.hidden, column = i - token * r.hidden;
    Wide<T> sum = 0;
    for (std::int64_t choice = token * r.choices; choice < (token + 1) * r.choices; ++choice) {
      const std::int64_t row = place_of(r, choice, token / r.tokens);
      if (row < 0) continue;
      sum +=
          weight_of<T>(x, choice) * widen(static_cast<const T*>(x.places)[row * r.hidden + column]);
    }
    put_number(x.to_type, x.to, i, sum, x.accumulate);
  }
}

template <typename T>
__global__ void __launch_bounds__(kThreads) weight_grad(CudaMoe x) {
  const CudaRouting& r = x.routing;
  const std::int64_t count = r.groups * r.tokens * r.choices;
  const std::int64_t warps = std::int64_t{gridDim.x} * (kThreads / 32);
  const int lane = static_cast<int>(threadIdx.x) % 32;
  for (std::int64_t choice = std::int64_t{blockIdx.x} * (kThreads / 32) + threadIdx.x / 32;
       choice < count; choice += warps) {
    const std::int64_t token = choice / r.choices;
    const std::int64_t row = place_of(r, choice, token / r.tokens);
    Wide<T> sum = 0;
    if (row >= 0) {
      const T* d = static_cast<const T*>(x.tokens) + token * r.hidden;
      const T* y = static_cast<const T*>(x.places) + row * r.hidden;
      for (std::int64_t i = lane; i < r.hidden; i += 32) sum += widen(d[i]) * widen(y[i]);
    }
    sum = over_warp(sum, Plus());
    if (lane == 0) put_number(x.to_type, x.to, choice, sum, x.accumulate);
  }
}

struct StartDispatch {
  const CudaMoe& x;
  cudaStream_t stream;
  template <typename T>
  cudaError_t operator()() const {
    const CudaRouting& r = x.routing;
    constexpr std::int64_t kPerTile = kThreads * kColumns;
    const std::int64_t tiles = (r.hidden + kPerTile - 1) / kPerTile;
    const std::int64_t places = r.num_experts * r.groups * r.capacity, tasks = places * tiles;
    if (tasks == 0) return cudaSuccess;
    if (x.choices_of_places != nullptr) {
      forget_choices<<<blocks_for(places, kThreads), kThreads, 0, stream>>>(x.choices_of_places,
                                                                            places);
      const std::int64_t choices = r.groups * r.tokens * r.choices;
      if (choices > 0) note_choices<<<blocks_for(choices, kThreads), kThreads, 0, stream>>>(x);
    }
    dispatch<T><<<limited(tasks), kThreads, 0, stream>>>(x, tiles);
    return cudaGetLastError();
  }
};

struct StartCombine {
  const CudaMoe& x;
  cudaStream_t stream;
  template <typename T>
  cudaError_t operator()() const {
    const CudaRouting& r = x.routing;
    const std::int64_t count = r.groups * r.tokens * r.hidden;
    if (count > 0) combine<T><<<blocks_for(count, kThreads), kThreads, 0, stream>>>(x);
    return cudaGetLastError();
  }
};

struct StartWeightGrad {
  const CudaMoe& x;
  cudaStream_t stream;
  template <typename T>
  cudaError_t operator()() const {
    const std::int64_t count = x.routing.groups * x.routing.tokens * x.routing.choices;
    constexpr std::int64_t kWarps = kThreads / 32;
    if (count > 0) weight_grad<T><<<blocks_for(count, kWarps), kThreads, 0, stream>>>(x);
    return cudaGetLastError();
  }
};

}  // namespace

cudaError_t enqueue_expert_position(const CudaExpertPosition& position, cudaStream_t stream) {
  const std::int64_t tasks = position.groups * position.num_experts;
  if (tasks * position.per_group == 0) return cudaSuccess;
  expert_position<<<limited(tasks), kThreads, 0, stream>>>(position);
  return cudaGetLastError();
}

std::size_t bytes_of_choices(const CudaRouting& routing) {
  const std::int64_t places = routing.num_experts * routing.groups * routing.capacity;
  return static_cast<std::size_t>(places) * sizeof(ChoicesOfPlace);
}

cudaError_t enqueue_moe_dispatch(const CudaMoe& moe, cudaStream_t stream) {
  return with_floating_type(moe.type, StartDispatch{moe, stream});
}

cudaError_t enqueue_moe_combine(const CudaMoe& moe, cudaStream_t stream) {
  return with_floating_type(moe.type, StartCombine{moe, stream});
}

cudaError_t enqueue_moe_weight_grad(const CudaMoe& moe, cudaStream_t stream) {
  return with_floating_type(moe.type, StartWeightGrad{moe, stream});
}

}  // namespace sextant
