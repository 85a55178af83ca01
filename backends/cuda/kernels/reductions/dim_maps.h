// Making maps of dims, on the host.
#pragma once

#include "backends/cuda/kernels/reductions/dim_map.h"
#include "core/tensors/shape.h"

#include <array>
#include <cstdint>
#include <vector>

namespace sextant {

// Per dim of `shape`, how far a step along it moves in a row-major tensor of the dims with
// `has_dim`; 0 along the others.
std::vector<std::int64_t> strides_among(const Shape& shape, const std::vector<bool>& has_dim);

// Of the dims of `shape` that are `taken`, in order.
using TwoStrides = std::array<std::vector<std::int64_t>, DimMap::kMostTensors>;
DimMap map_of(const Shape& shape, const std::vector<bool>& taken, const TwoStrides& strides);

}  // namespace sextant
