// Rows of a convolution: x and its columns along the last dim, where what a tap sees of a row lies
// side by side once the row is padded and its stride taken apart.
#pragma once

#include "backends/cpu/kernels/shared/kernel.h"

#include <cstdint>
#include <span>

namespace sextant {

// Some windows of one sample: rows [first, first + count) of y.
struct ConvRowPart {
  std::int64_t first = 0, count = 0;
};

// One channel at a time. A plane is its rows of x, each as `stride` phases of `phase` floats: the
// element at `base` + i of the row is at (i mod stride) phase + i / stride. Row 0 of a plane is
// zero: what windows see outside.
class ConvRows {
 public:
  ConvRows(const KernelContext& context, const KernelOperand& x, const KernelOperand& w,
           const KernelOperand& y);

  std::int64_t y_row() const { return y_row_; }  // elements
  // The row of x for each outer tap and row of y, or -1; of so many entries.
  std::int64_t table_size() const { return outer_taps_ * y_rows_; }
  void fill_table(std::span<std::int32_t> table) const;
  // Floats of a plane.
  std::int64_t plane_size() const { return (x_rows_ + 1) * pitch(); }

  // columns[tap x stride + i]: what tap `tap` sees of channel `x` in the i-th window of the part.
  void gather(const float* x, std::span<const std::int32_t> table, const ConvRowPart& part,
              float* plane, float* columns, std::int64_t stride) const;
  // x = the sum of the columns of all rows of y, at the places that they were gathered from; or
  // added to x.
  void scatter(const float* columns, std::int64_t stride, std::span<const std::int32_t> table,
               float* plane, float* x, bool adds) const;

 private:
  std::int64_t pitch() const { return stride_ * phase_; }
  std::int64_t tap_at(std::int64_t last_tap) const {
    const std::int64_t offset = last_tap * dilation_;
    return offset % stride_ * phase_ + offset / stride_;
  }
  void fill_row(const float* x, float* row) const;
  void take_row(const float* row, float* x, bool adds) const;

  const KernelContext* context_;
  const KernelOperand *x_, *w_, *y_;
  std::int64_t outer_taps_ = 1, last_taps_ = 1;
  std::int64_t x_rows_ = 1, y_rows_ = 1, x_row_ = 1, y_row_ = 1;
  std::int64_t stride_ = 1, dilation_ = 1;
  std::int64_t base_ = 0;   // where in a row of x the first window's first tap is
  std::int64_t phase_ = 1;  // floats
};

}  // namespace sextant
