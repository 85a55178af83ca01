// Sums in lanes; two of one pass over the same rows are written out.
#include "backends/cpu/kernels/fast/wide_sums.h"

#include "backends/cpu/kernels/fast/clones.h"
#include "backends/cpu/kernels/fast/fast.h"

#include <array>
#include <cstddef>

namespace sextant {
namespace {

using Lanes = std::array<double, kLanes>;

SEXTANT_INLINE double total(Lanes& lanes) {
  for (std::size_t width = kLanes / 2; width > 0; width /= 2)
    for (std::size_t lane = 0; lane < width; ++lane) lanes[lane] += lanes[lane + width];
  return lanes[0];
}

}  // namespace

SEXTANT_CLONES double wide_sum(const float* x, std::int64_t count) {
  return lane_sum<double>(count, [&](std::int64_t i) { return static_cast<double>(x[i]); });
}

SEXTANT_CLONES double wide_squares(const float* x, float mean, std::int64_t count) {
  const auto centre = static_cast<double>(mean);
  return lane_sum<double>(count, [&](std::int64_t i) {
    const double centred = static_cast<double>(x[i]) - centre;
    return centred * centred;
  });
}

SEXTANT_CLONES WideGradSums wide_grad_sums(const float* x, float mean, const float* dy,
                                           std::int64_t count) {
  Lanes sums{}, products{};
  const auto centre = static_cast<double>(mean);
  std::int64_t i = 0;
  for (; i + static_cast<std::int64_t>(kLanes) <= count; i += kLanes)
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      const auto at = i + static_cast<std::int64_t>(lane);
      const auto gradient = static_cast<double>(dy[at]);
      sums[lane] += gradient;
      products[lane] += gradient * (static_cast<double>(x[at]) - centre);
    }
  for (std::size_t lane = 0; i < count; ++i, ++lane) {
    const auto gradient = static_cast<double>(dy[i]);
    sums[lane] += gradient;
    products[lane] += gradient * (static_cast<double>(x[i]) - centre);
  }
  return {.dy = total(sums), .dy_x = total(products)};
}

}  // namespace sextant
