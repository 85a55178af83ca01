// Quartiles of what single runs took.
#include "actor/calls/kernel_timer.h"

#include "core/base/quantile.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace sextant {

KernelTiming timing_of(std::vector<double> seconds) {
  std::sort(seconds.begin(), seconds.end());
  return {.median_s = quantile(seconds, 0.5),
          .low_quartile_s = quantile(seconds, 0.25),
          .high_quartile_s = quantile(seconds, 0.75),
          .mean_s = std::accumulate(seconds.begin(), seconds.end(), 0.0) /
                    static_cast<double>(seconds.size()),
          .runs = static_cast<int>(seconds.size())};
}

}  // namespace sextant
