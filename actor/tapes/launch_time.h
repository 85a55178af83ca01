// The arithmetic of virtual time that stepping a device and evaluating a tape have in common, so
// that both agree to the picosecond. No clock: all times are arguments.
#pragma once

#include "core/base/counter_rng.h"
#include "core/base/ids.h"
#include "core/base/units.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace sextant {

// When the host issues its launches (README, invariant 9):
//   host(0) = 0, host(k) = max(host(k-1) + launch cost, ends of what the host waited for since).
class HostChain {
 public:
  void wait_for(Time end) { floor_ = std::max(floor_, end); }
  Time launch(Duration cost) {
    now_ = launched_ ? std::max(now_ + cost, floor_) : floor_;
    launched_ = true;
    return now_;
  }
  Time now() const { return std::max(now_, floor_); }

 private:
  Time now_, floor_;
  bool launched_ = false;
};

// In standard deviations, one unit of a sum of four uniform numbers on [0, 2^32): its variance is
// 4 * 2^64 / 12, so its standard deviation 2^32 / sqrt(3).
inline constexpr double kDeviationOfSum = 1.7320508075688772 / 4294967296.0;

// Factor of a compute duration: mean 1, relative standard deviation `jitter`, never below 0. A
// function of who acts and when, not of the order in which it is asked for. The deviation is the
// sum of four uniform numbers (a bell within 3.46 deviations), exact in double arithmetic up to the
// one multiplication, so that it is the same on every machine.
inline double jitter_factor(double jitter, std::uint64_t seed, Rank rank, RunId run,
                            std::int64_t step) {
  const auto low = static_cast<std::uint64_t>(step);
  const PhiloxBlock bits =
      philox4x32({static_cast<std::uint32_t>(run.value), static_cast<std::uint32_t>(rank.value),
                  static_cast<std::uint32_t>(low), static_cast<std::uint32_t>(low >> 32)},
                 {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)});
  std::int64_t sum = 0;
  for (const std::uint32_t word : bits) sum += word;
  // The mean of such a sum is 2^33.
  const double deviations = static_cast<double>(sum - (std::int64_t{1} << 33)) * kDeviationOfSum;
  return std::max(0.0, 1.0 + jitter * deviations);
}

inline Duration jittered(Duration duration, double jitter, std::uint64_t seed, Rank rank, RunId run,
                         std::int64_t step) {
  if (jitter == 0.0) return duration;
  const double factor = jitter_factor(jitter, seed, rank, run, step);
  return Duration(std::llround(static_cast<double>(duration.value) * factor));
}

}  // namespace sextant
