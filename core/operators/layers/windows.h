// Windows that slide over the spatial dims of [N, C, spatial ...]: what convolutions and pools have
// in common. Positions are global; which of them a device holds is not known here.
#pragma once

#include "core/tensors/attributes.h"
#include "core/tensors/shape.h"

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace sextant {

inline constexpr std::size_t kFirstSpatialDim = 2;

// One entry per spatial dim, numbered from 0.
struct Windows {
  std::vector<std::int64_t> kernel, stride, padding, dilation;

  // Attributes `stride`, `padding`, `dilation`; 1 (`default_stride` if not empty), 0 and 1 where
  // missing. Throws Error(kBadInput) for a wrong number of entries or values out of range.
  Windows(std::string_view kind, const Attributes& attributes, std::vector<std::int64_t> kernel,
          std::vector<std::int64_t> default_stride = {});

  std::size_t rank() const { return kernel.size(); }
  // From the first to behind the last position that a window reads.
  std::int64_t span(std::size_t dim) const { return dilation[dim] * (kernel[dim] - 1) + 1; }
  // How many windows fit an input of this extent, padding included.
  std::int64_t count(std::size_t dim, std::int64_t extent) const;
  // Each position is a window.
  bool is_pointwise(std::size_t dim) const;
  // Every window lies in its own stretch of `stride` positions, and these fill the extent: a split
  // between stretches cuts no window.
  bool is_aligned(std::size_t dim, std::int64_t extent) const;
};

// Extents of the spatial dims.
std::vector<std::int64_t> spatial_extents(const Shape& shape);

// Extents of the windows over x. Where attribute `spatial` (the extents of all of x) is given, x
// may be a part and the windows are still all of them. Throws Error(kBadInput) where none fits.
std::vector<std::int64_t> window_counts(std::string_view kind, const Windows& windows,
                                        const Shape& x, const Attributes& attributes);

// [n, c, extents ...].
Shape spatial_shape(std::int64_t n, std::int64_t c, const std::vector<std::int64_t>& extents);

}  // namespace sextant
