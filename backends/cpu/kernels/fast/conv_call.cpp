// How a convolution is cut into products.
#include "backends/cpu/kernels/fast/conv_call.h"

#include "backends/cpu/kernels/shared/taps.h"
#include "core/base/check.h"

#include <algorithm>

namespace sextant {
namespace {

// A matrix of columns stays in a second-level cache: 1 MiB of floats.
constexpr std::int64_t kCachedFloats = std::int64_t{1} << 18;
constexpr std::int64_t kFewestColumns = 48, kMostColumns = 1024;

std::int64_t columns_of_cache(std::int64_t rows) {
  return std::clamp(kCachedFloats / std::max<std::int64_t>(rows, 1), kFewestColumns, kMostColumns);
}

}  // namespace

ConvCall::ConvCall(const KernelOperand& x, const KernelOperand& w, const KernelOperand& y) {
  const Shape &xs = x.local.shape, &ws = w.local.shape, &ys = y.local.shape;
  channels = ws[1];
  groups = xs[1] / channels;
  require(groups * channels == xs[1] && groups > 0 && ws[0] % groups == 0 && ys[1] == ws[0],
          ErrorCode::kInternal, "channels of x {}, w {} and y {} do not belong together",
          to_string(xs), to_string(ws), to_string(ys));
  samples = xs[0];
  outputs = ws[0] / groups;
  taps = spatial_positions(w);
  x_positions = spatial_positions(x);
  y_positions = spatial_positions(y);
  y_row_ = ys[ys.rank() - 1];
}

std::int64_t ConvCall::tiles_of_sample(std::int64_t rows) const {
  const std::int64_t columns = columns_of_cache(rows);
  if (y_positions < columns) return 0;
  return num_parts(y_positions / y_row_, (y_positions + columns - 1) / columns, 1);
}

std::int64_t ConvCall::num_tiles(std::int64_t rows) const {
  const std::int64_t of_sample = tiles_of_sample(rows), columns = columns_of_cache(rows);
  if (of_sample > 0) return samples * of_sample;
  return num_parts(samples, (samples * y_positions + columns - 1) / columns, 1);
}

ConvTile ConvCall::tile(std::int64_t rows, std::int64_t index) const {
  const std::int64_t of_sample = tiles_of_sample(rows);
  if (of_sample == 0) {
    const auto [first, length] = part_of(samples, num_tiles(rows), index);
    return {.sample = first, .samples = length, .first = 0, .positions = y_positions};
  }
  const auto [first, length] = part_of(y_positions / y_row_, of_sample, index % of_sample);
  return {.sample = index / of_sample,
          .samples = 1,
          .first = first * y_row_,
          .positions = length * y_row_};
}

std::int64_t ConvCall::most_columns(std::int64_t rows) const {
  const std::int64_t of_sample = tiles_of_sample(rows), tiles = num_tiles(rows);
  if (of_sample == 0) return (samples + tiles - 1) / tiles * y_positions;
  return (y_positions / y_row_ + of_sample - 1) / of_sample * y_row_;
}

std::int64_t num_parts(std::int64_t count, std::int64_t parts, std::int64_t unit) {
  return std::clamp<std::int64_t>(parts, 1, std::max<std::int64_t>(count / unit, 1));
}

ConvPart part_of(std::int64_t count, std::int64_t parts, std::int64_t index) {
  const std::int64_t first = count * index / parts;
  return {.first = first, .length = count * (index + 1) / parts - first};
}

}  // namespace sextant
