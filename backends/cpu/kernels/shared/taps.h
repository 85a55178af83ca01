// The pairs of an input position and a window position that reads it, both in boxes of the global
// tensor: what reference convolutions and pools loop over.
#pragma once

#include "backends/cpu/kernels/shared/kernel.h"
#include "core/operators/layers/windows.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace sextant {

inline constexpr std::size_t kMaxSpatialRank = 14;

// Visits the multi-indices of `extents`, row-major, with their number.
template <typename Visit>
void for_each_index(std::span<const std::int64_t> extents, const Visit& visit) {
  std::array<std::int64_t, kMaxSpatialRank> index{};
  std::int64_t count = 1;
  for (const std::int64_t extent : extents) count *= extent;
  for (std::int64_t flat = 0; flat < count; ++flat) {
    visit(static_cast<std::size_t>(flat), index);
    for (std::size_t dim = extents.size(); dim-- > 0;) {
      if (++index[dim] < extents[dim]) break;
      index[dim] = 0;
    }
  }
}

// Local positions per channel.
inline std::int64_t spatial_positions(const KernelOperand& operand) {
  std::int64_t count = 1;
  for (std::size_t dim = kFirstSpatialDim; dim < operand.local.shape.rank(); ++dim)
    count *= operand.local.shape[dim];
  return count;
}

// The spatial dims of two operands [N, C, spatial ...] in their boxes.
class Taps {
 public:
  Taps(const Windows& windows, const KernelOperand& x, const KernelOperand& y)
      : windows_(windows),
        x_(std::span(x.box.dims).subspan(kFirstSpatialDim)),
        y_(std::span(y.box.dims).subspan(kFirstSpatialDim)) {
    for (std::size_t dim = 0; dim < windows.rank(); ++dim) {
      x_positions_ *= x_[dim].extent;
      y_positions_ *= y_[dim].extent;
      y_extents_[dim] = y_[dim].extent;
      kernel_positions_ *= windows.kernel[dim];
    }
  }

  // Local positions per channel.
  std::size_t x_positions() const { return static_cast<std::size_t>(x_positions_); }
  std::size_t y_positions() const { return static_cast<std::size_t>(y_positions_); }
  std::size_t kernel_positions() const { return static_cast<std::size_t>(kernel_positions_); }

  // visit(y position, x position, kernel position) for every window here and every position of it
  // that is here: padding and other parts are left out. By window, then kernel position.
  template <typename Visit>
  void for_each(const Visit& visit) const {
    for_each_index(std::span(y_extents_).first(windows_.rank()), [&](std::size_t y, auto& at) {
      for_each_index(windows_.kernel, [&](std::size_t tap, auto& offset) {
        std::int64_t x = 0;
        for (std::size_t dim = 0; dim < windows_.rank(); ++dim) {
          const std::int64_t position =
              position_of(dim, y_[dim].offset + at[dim], offset[dim]) - x_[dim].offset;
          if (position < 0 || position >= x_[dim].extent) return;
          x = x * x_[dim].extent + position;
        }
        visit(y, static_cast<std::size_t>(x), tap);
      });
    });
  }

  // visit(y position, number of positions of the window inside `extents`).
  template <typename Visit>
  void for_each_count(std::span<const std::int64_t> extents, const Visit& visit) const {
    for_each_index(std::span(y_extents_).first(windows_.rank()), [&](std::size_t y, auto& at) {
      std::int64_t count = 1;
      for (std::size_t dim = 0; dim < windows_.rank(); ++dim) {
        std::int64_t inside = 0;
        for (std::int64_t offset = 0; offset < windows_.kernel[dim]; ++offset) {
          const std::int64_t position = position_of(dim, y_[dim].offset + at[dim], offset);
          inside += position >= 0 && position < extents[dim] ? 1 : 0;
        }
        count *= inside;
      }
      visit(y, count);
    });
  }

 private:
  // Global position that a window reads.
  std::int64_t position_of(std::size_t dim, std::int64_t window, std::int64_t offset) const {
    return window * windows_.stride[dim] - windows_.padding[dim] + offset * windows_.dilation[dim];
  }

  const Windows& windows_;
  std::span<const Interval> x_, y_;
  std::array<std::int64_t, kMaxSpatialRank> y_extents_{};
  std::int64_t x_positions_ = 1, y_positions_ = 1, kernel_positions_ = 1;
};

}  // namespace sextant
