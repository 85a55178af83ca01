// What a cost or network model says in seconds, as virtual time.
#pragma once

#include "core/base/check.h"
#include "core/base/units.h"

#include <string_view>

namespace sextant {

// Throws Error(kInfeasible) naming `what` took so long: a kernel's name, or a primitive's.
inline Duration modelled_time(double seconds, std::string_view what) {
  constexpr double kMostSeconds = 9e6;
  if (seconds >= 0 && seconds < kMostSeconds) return duration_from_seconds(seconds);
  fail(ErrorCode::kInfeasible,
       "one {} would take {:.3g} s by the numbers of the cluster; times end at {:.0f} days", what,
       seconds, kMostSeconds / 86400);
}

}  // namespace sextant
