// What measures single launches on a device, whichever it is: for cluster files and benchmarks.
#pragma once

#include "actor/calls/kernel_context.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace sextant {

struct KernelTiming {
  double median_s = 0, low_quartile_s = 0, high_quartile_s = 0, mean_s = 0;
  int runs = 0;
};
// Median, quartiles and mean of the seconds that single runs took; there is at least one run.
KernelTiming timing_of(std::vector<double> seconds);

class KernelTimer {
 public:
  virtual ~KernelTimer() = default;
  // Values of integer inputs lie in [0, limit) from now on.
  virtual void set_id_limit(std::int64_t limit) = 0;
  // Whether the device has one kernel for several calls of a kind.
  virtual bool go_together(std::string_view kind) const = 0;
  // What one launch of these calls takes; nothing where no kernel covers them or memory is short.
  // Their operands' addresses are ignored.
  virtual std::optional<KernelTiming> time(std::span<const KernelContext> calls) = 0;
};

}  // namespace sextant
