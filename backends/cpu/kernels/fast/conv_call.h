// A convolution on local boxes as products of matrices: which positions of x a window sees, and how
// the work is cut. Weights of a group are a matrix [outputs, channels x taps]; x becomes columns
// [channels x taps, positions], one per window.
#pragma once

#include "backends/cpu/kernels/shared/kernel.h"

#include <cstdint>

namespace sextant {

// Windows that are worked on together: `positions` from `first` on of one sample, which are whole
// rows, or all of several samples.
struct ConvTile {
  std::int64_t sample = 0, samples = 1;
  std::int64_t first = 0, positions = 0;
  std::int64_t columns() const { return samples * positions; }
};

// Part of what is cut: [first, first + length).
struct ConvPart {
  std::int64_t first = 0, length = 0;
};

class ConvCall {
 public:
  // The operands are x [N, C, spatial ...], w [O, C / groups, kernel ...], y [N, O, spatial ...],
  // none of them empty.
  ConvCall(const KernelOperand& x, const KernelOperand& w, const KernelOperand& y);

  std::int64_t samples = 0, groups = 1;
  std::int64_t channels = 0, outputs = 0;  // of a group
  std::int64_t taps = 1;                   // kernel positions
  std::int64_t x_positions = 1, y_positions = 1;

  std::int64_t depth() const { return channels * taps; }
  std::int64_t x_at(std::int64_t sample, std::int64_t group, std::int64_t channel) const {
    return ((sample * groups + group) * channels + channel) * x_positions;
  }
  std::int64_t y_at(std::int64_t sample, std::int64_t group, std::int64_t output) const {
    return ((sample * groups + group) * outputs + output) * y_positions;
  }

  // Tiles of which a matrix of `rows` floats per column stays in a core's cache, in order; and the
  // most columns that one of them has. They depend on extents alone.
  std::int64_t num_tiles(std::int64_t rows) const;
  ConvTile tile(std::int64_t rows, std::int64_t index) const;
  std::int64_t most_columns(std::int64_t rows) const;

 private:
  // Whole rows of y at a time, of one sample; 0: some samples are one tile.
  std::int64_t tiles_of_sample(std::int64_t rows) const;

  std::int64_t y_row_ = 1;  // elements
};

// `count` in at most `parts` even parts of a multiple of `unit` each, but the last.
std::int64_t num_parts(std::int64_t count, std::int64_t parts, std::int64_t unit);
ConvPart part_of(std::int64_t count, std::int64_t parts, std::int64_t index);

}  // namespace sextant
