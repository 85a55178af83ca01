// Pools in f32: what windows see is worked out once and used for every channel of every sample.
#include "backends/cpu/kernels/fast/fast.h"
#include "backends/cpu/kernels/fast/pieces.h"
#include "backends/cpu/kernels/shared/families.h"
#include "backends/cpu/kernels/shared/reference.h"
#include "backends/cpu/kernels/shared/taps.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace sextant {
namespace {

std::int64_t taps_of(const KernelContext& context) {
  std::int64_t count = 1;
  for (const std::int64_t extent : context.attributes().integers("kernel")) count *= extent;
  return count;
}

// The positions that are here, window by window: those of window y are `x[first[y]]` to
// `x[first[y + 1]]`, row-major.
struct SeenPositions {
  std::int64_t planes = 0, x_positions = 0, y_positions = 0;
  std::span<std::int32_t> first = {}, x = {};
};

SeenPositions seen_positions(const KernelContext& context, const KernelOperand& x,
                             const KernelOperand& y, Workspace& workspace) {
  SeenPositions seen{.planes = x.local.shape[0] * x.local.shape[1],
                     .x_positions = spatial_positions(x),
                     .y_positions = spatial_positions(y)};
  const auto windows_here = static_cast<std::size_t>(seen.y_positions);
  seen.first = workspace.take<std::int32_t>(windows_here + 1);
  seen.x = workspace.take<std::int32_t>(windows_here * static_cast<std::size_t>(taps_of(context)));
  std::fill(seen.first.begin(), seen.first.end(), 0);
  const std::vector<std::int64_t>& kernel = context.attributes().integers("kernel");
  const Windows windows(context.actor->kind, context.attributes(), kernel, kernel);
  std::size_t count = 0;
  Taps(windows, x, y).for_each([&](std::size_t y_at, std::size_t x_at, std::size_t) {
    seen.x[count++] = static_cast<std::int32_t>(x_at);
    seen.first[y_at + 1] = static_cast<std::int32_t>(count);
  });
  for (std::size_t i = 1; i <= windows_here; ++i)
    seen.first[i] = std::max(seen.first[i], seen.first[i - 1]);
  return seen;
}

std::int64_t seen_bytes(const KernelContext& context, const KernelOperand& y) {
  const auto windows = static_cast<std::size_t>(spatial_positions(y));
  return Workspace::bytes_of<std::int32_t>(windows + 1) +
         Workspace::bytes_of<std::int32_t>(windows * static_cast<std::size_t>(taps_of(context)));
}

// work(plane) for all channels of all samples.
template <typename Work>
void for_each_plane(const SeenPositions& seen, Workspace& workspace, const Work& work) {
  in_pieces(workspace, seen.planes, seen.x_positions, [&](std::int64_t first, std::int64_t length) {
    for (std::int64_t plane = first; plane < first + length; ++plane) work(plane);
  });
}

// Larger, or the first NaN.
bool beats(float value, float largest) {
  return value > largest || (std::isnan(value) && !std::isnan(largest));
}

void max_pool(const KernelContext& context, Workspace& workspace) {
  const SeenPositions seen = seen_positions(context, context.in[0], context.out[0], workspace);
  for_each_plane(seen, workspace, [&](std::int64_t plane) {
    const float* const x = input<float>(context, 0) + plane * seen.x_positions;
    float* const y = output<float>(context, 0) + plane * seen.y_positions;
    for (std::size_t at = 0; at < static_cast<std::size_t>(seen.y_positions); ++at) {
      float largest = -std::numeric_limits<float>::infinity();
      for (std::int32_t i = seen.first[at]; i < seen.first[at + 1]; ++i) {
        const float value = x[seen.x[static_cast<std::size_t>(i)]];
        largest = beats(value, largest) ? value : largest;
      }
      y[at] = largest;
    }
  });
}

// The first of equal elements gets the gradient.
void max_pool_grad(const KernelContext& context, Workspace& workspace) {
  const SeenPositions seen = seen_positions(context, context.in[0], context.in[1], workspace);
  for_each_plane(seen, workspace, [&](std::int64_t plane) {
    const float* const x = input<float>(context, 0) + plane * seen.x_positions;
    const float* const dy = input<float>(context, 1) + plane * seen.y_positions;
    float* const dx = output<float>(context, 0) + plane * seen.x_positions;
    std::fill_n(dx, seen.x_positions, 0.0F);
    for (std::size_t at = 0; at < static_cast<std::size_t>(seen.y_positions); ++at) {
      const std::int32_t begin = seen.first[at], end = seen.first[at + 1];
      if (begin == end) continue;
      std::int32_t place = seen.x[static_cast<std::size_t>(begin)];
      float largest = x[place];
      for (std::int32_t i = begin + 1; i < end; ++i) {
        const std::int32_t here = seen.x[static_cast<std::size_t>(i)];
        const bool is_larger = beats(x[here], largest);
        largest = is_larger ? x[here] : largest;
        place = is_larger ? here : place;
      }
      dx[place] += dy[at];
    }
  });
}

std::int64_t max_pool_bound(const KernelContext& context) {
  return seen_bytes(context, context.out[0]);
}
std::int64_t max_pool_grad_bound(const KernelContext& context) {
  return seen_bytes(context, context.in[1]);
}

// Positions are numbered in 32 bits. Windows are those of the output, of a gradient those of dy.
bool covers_pool(const KernelContext& context) {
  std::int64_t positions = 0;
  for (const auto* operands : {&context.in, &context.out})
    for (const KernelOperand& operand : *operands)
      positions = std::max(positions, spatial_positions(operand));
  return context.in[0].local.dtype == DType::kF32 && overwrites_f32(context) &&
         positions * taps_of(context) < std::int64_t{1} << 31;
}

}  // namespace

void add_fast_pool_kernels(KernelTable& table) {
  table.add("max_pool", max_pool, covers_pool, max_pool_bound);
  table.add("max_pool_grad", max_pool_grad, covers_pool, max_pool_grad_bound);
}

}  // namespace sextant
