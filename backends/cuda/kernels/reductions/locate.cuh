// Finding positions through a map of dims, in device code.
#pragma once

#include "backends/cuda/kernels/reductions/dim_map.h"

#include <cstdint>

namespace sextant {

struct Located {
  std::int64_t first = 0, second = 0;  // in the two tensors of a map
};

template <typename Index>
__device__ __forceinline__ Located locate_in(const DimMap& map, std::int64_t position) {
  auto rest = static_cast<Index>(position);
  Located at;
  for (int dim = 0; dim + 1 < map.dims; ++dim) {
    const auto extent = static_cast<Index>(map.extents[dim]);
    const Index quotient = rest / extent;
    const auto index = static_cast<std::int64_t>(rest - quotient * extent);
    at.first += index * map.strides[0][dim];
    at.second += index * map.strides[1][dim];
    rest = quotient;
  }
  if (map.dims > 0) {
    at.first += static_cast<std::int64_t>(rest) * map.strides[0][map.dims - 1];
    at.second += static_cast<std::int64_t>(rest) * map.strides[1][map.dims - 1];
  }
  return at;
}

// Divisions of 64 bits are many instructions, and hardly a tensor wants them: a call.
static __device__ __noinline__ Located locate_far(const DimMap& map, std::int64_t position) {
  return locate_in<std::uint64_t>(map, position);
}

// Maps are parameters of kernels, `__grid_constant__` so that nobody copies them for that call.
__device__ __forceinline__ Located locate(const DimMap& map, std::int64_t position) {
  if (position <= UINT32_MAX)  // divisions of 32 bits are several times as fast
    return locate_in<std::uint32_t>(map, position);
  return locate_far(map, position);
}

}  // namespace sextant
