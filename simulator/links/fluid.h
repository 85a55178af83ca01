// Work that is done at a rate of at most 1, by itself a whole number of picoseconds: what flows and
// kernels slowed by others have in common.
#pragma once

#include "core/base/units.h"
#include "simulator/links/flow_network.h"

#include <algorithm>

namespace sextant {

class Fluid {
 public:
  Fluid() = default;
  explicit Fluid(Time start) : start_(start), since_(start) {}

  // As long as nothing has slowed it, times are exact; after that completions are rounded up, and
  // are never before those of undisturbed work.
  void set_rate(Time now, double rate) {
    if (rate == rate_) return;
    done_ = is_exact_ ? static_cast<double>((now - start_).value)
                      : done_ + rate_ * static_cast<double>((now - since_).value);
    since_ = now;
    rate_ = rate;
    is_exact_ = false;
  }
  double rate() const { return rate_; }

  // When `work` of it will be done if the rate stays.
  Time reaches(Duration work) const {
    const Time undisturbed = start_ + work;
    if (is_exact_) return undisturbed;
    const double left = static_cast<double>(work.value) - done_;
    return std::max(undisturbed, since_ + Duration(picoseconds_up(left, rate_)));
  }

 private:
  Time start_, since_;
  double done_ = 0, rate_ = 1;
  bool is_exact_ = true;
};

}  // namespace sextant
