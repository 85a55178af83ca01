// Copies and sums of short rows, for every length up to a vector without a loop.
#include "backends/cpu/kernels/fast/conv_rows.h"

#include "backends/cpu/kernels/fast/clones.h"
#include "backends/cpu/kernels/shared/taps.h"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace sextant {
namespace {

constexpr std::int64_t kWhole = 16;

// What one tap of one channel moves: row i from or to `plane` + (row of x + 1) pitch.
struct TapRows {
  const std::int32_t* rows = nullptr;  // of x, by row of y
  std::int64_t count = 0, length = 0;
  std::int64_t pitch = 0;
};

template <std::int64_t kRest>
SEXTANT_INLINE void copy_rows(const float* plane, const TapRows& tap, float* to) {
  for (std::int64_t i = 0; i < tap.count; ++i) {
    const float* from = plane + (tap.rows[i] + 1) * tap.pitch;
    for (std::int64_t whole = kWhole; whole <= tap.length; whole += kWhole) {
      for (std::int64_t j = 0; j < kWhole; ++j) to[j] = from[j];
      to += kWhole;
      from += kWhole;
    }
    for (std::int64_t j = 0; j < kRest; ++j) to[j] = from[j];
    to += kRest;
  }
}

template <std::int64_t kRest>
SEXTANT_INLINE void add_rows(const float* from, const TapRows& tap, float* plane) {
  for (std::int64_t i = 0; i < tap.count; ++i) {
    float* to = plane + (tap.rows[i] + 1) * tap.pitch;
    for (std::int64_t whole = kWhole; whole <= tap.length; whole += kWhole) {
#pragma GCC ivdep
      for (std::int64_t j = 0; j < kWhole; ++j) to[j] += from[j];
      to += kWhole;
      from += kWhole;
    }
#pragma GCC ivdep
    for (std::int64_t j = 0; j < kRest; ++j) to[j] += from[j];
    from += kRest;
  }
}

template <std::size_t... kRests>
SEXTANT_INLINE void copy_rows_of(const float* plane, const TapRows& tap, float* to,
                                 std::index_sequence<kRests...>) {
  static_cast<void>(((tap.length % kWhole == static_cast<std::int64_t>(kRests) &&
                      (copy_rows<static_cast<std::int64_t>(kRests)>(plane, tap, to), true)) ||
                     ...));
}

template <std::size_t... kRests>
SEXTANT_INLINE void add_rows_of(const float* from, const TapRows& tap, float* plane,
                                std::index_sequence<kRests...>) {
  static_cast<void>(((tap.length % kWhole == static_cast<std::int64_t>(kRests) &&
                      (add_rows<static_cast<std::int64_t>(kRests)>(from, tap, plane), true)) ||
                     ...));
}

using Rests = std::make_index_sequence<kWhole>;

SEXTANT_CLONES void copy_tap(const float* plane, const TapRows& tap, float* to) {
  copy_rows_of(plane, tap, to, Rests());
}

SEXTANT_CLONES void add_tap(const float* from, const TapRows& tap, float* plane) {
  add_rows_of(from, tap, plane, Rests());
}

}  // namespace

ConvRows::ConvRows(const KernelContext& context, const KernelOperand& x, const KernelOperand& w,
                   const KernelOperand& y)
    : context_(&context), x_(&x), w_(&w), y_(&y) {
  const Windows windows(context.actor->kind, context.attributes(), spatial_extents(w.local.shape));
  const std::size_t last = windows.rank() - 1, dim = last + kFirstSpatialDim;
  last_taps_ = windows.kernel[last];
  for (std::size_t i = 0; i < last; ++i) outer_taps_ *= windows.kernel[i];
  x_row_ = x.local.shape[dim];
  y_row_ = y.local.shape[dim];
  x_rows_ = spatial_positions(x) / x_row_;
  y_rows_ = spatial_positions(y) / y_row_;
  stride_ = windows.stride[last];
  dilation_ = windows.dilation[last];
  base_ = y.box.dims[dim].offset * stride_ - windows.padding[last] - x.box.dims[dim].offset;
  const std::int64_t seen = (y_row_ - 1) * stride_ + (last_taps_ - 1) * dilation_ + 1;
  phase_ = (seen + stride_ - 1) / stride_;
}

void ConvRows::fill_table(std::span<std::int32_t> table) const {
  std::fill(table.begin(), table.end(), -1);
  Windows outer(context_->actor->kind, context_->attributes(), spatial_extents(w_->local.shape));
  for (auto* entries : {&outer.kernel, &outer.stride, &outer.padding, &outer.dilation})
    entries->pop_back();
  Taps(outer, *x_, *y_).for_each([&](std::size_t y, std::size_t x, std::size_t tap) {
    table[tap * static_cast<std::size_t>(y_rows_) + y] = static_cast<std::int32_t>(x);
  });
}

// The places of a row that are elements of x: i in [first, end), x[base + i].
void ConvRows::fill_row(const float* x, float* row) const {
  const std::int64_t first = std::clamp<std::int64_t>(-base_, 0, pitch());
  const std::int64_t end = std::clamp<std::int64_t>(x_row_ - base_, first, pitch());
  if (stride_ == 1) {
    std::fill_n(row, first, 0.0F);
    std::copy_n(x + base_ + first, end - first, row + first);
    std::fill(row + end, row + pitch(), 0.0F);
    return;
  }
  std::fill_n(row, pitch(), 0.0F);
  for (std::int64_t phase = 0; phase < stride_; ++phase)
    for (std::int64_t i = (first - phase + stride_ - 1) / stride_; i * stride_ + phase < end; ++i)
      row[phase * phase_ + i] = x[base_ + i * stride_ + phase];
}

void ConvRows::take_row(const float* row, float* x, bool adds) const {
  if (!adds) std::fill_n(x, x_row_, 0.0F);
  const std::int64_t first = std::clamp<std::int64_t>(-base_, 0, pitch());
  const std::int64_t end = std::clamp<std::int64_t>(x_row_ - base_, first, pitch());
  for (std::int64_t phase = 0; phase < stride_; ++phase)
    for (std::int64_t i = (first - phase + stride_ - 1) / stride_; i * stride_ + phase < end; ++i)
      x[base_ + i * stride_ + phase] += row[phase * phase_ + i];
}

void ConvRows::gather(const float* x, std::span<const std::int32_t> table, const ConvRowPart& part,
                      float* plane, float* columns, std::int64_t stride) const {
  std::int32_t lowest = static_cast<std::int32_t>(x_rows_), highest = -1;
  for (std::int64_t tap = 0; tap < outer_taps_; ++tap)
    for (std::int64_t i = 0; i < part.count; ++i) {
      const std::int32_t row = table[static_cast<std::size_t>(tap * y_rows_ + part.first + i)];
      if (row < 0) continue;
      lowest = std::min(lowest, row);
      highest = std::max(highest, row);
    }
  std::fill_n(plane, pitch(), 0.0F);
  for (std::int64_t row = lowest; row <= highest; ++row)
    fill_row(x + row * x_row_, plane + (row + 1) * pitch());
  for (std::int64_t outer = 0; outer < outer_taps_; ++outer)
    for (std::int64_t last = 0; last < last_taps_; ++last)
      copy_tap(plane + tap_at(last),
               {table.data() + outer * y_rows_ + part.first, part.count, y_row_, pitch()},
               columns + (outer * last_taps_ + last) * stride);
}

void ConvRows::scatter(const float* columns, std::int64_t stride,
                       std::span<const std::int32_t> table, float* plane, float* x,
                       bool adds) const {
  std::fill_n(plane, plane_size(), 0.0F);
  for (std::int64_t outer = 0; outer < outer_taps_; ++outer)
    for (std::int64_t last = 0; last < last_taps_; ++last)
      add_tap(columns + (outer * last_taps_ + last) * stride,
              {table.data() + outer * y_rows_, y_rows_, y_row_, pitch()}, plane + tap_at(last));
  for (std::int64_t row = 0; row < x_rows_; ++row)
    take_row(plane + (row + 1) * pitch(), x + row * x_row_, adds);
}

}  // namespace sextant
