// Long runs on machines that fail: how much of the wall time is work that stays done. Failures come
// at random with a constant rate and undo everything since the last checkpoint.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace sextant {

struct Reliability {
  double device_mtbf_s = 0;  // mean time between failures of one device
  std::int64_t devices = 1;  // any of them stops the run
  double checkpoint_s = 0;   // the run stands still while one is written
  double restart_s = 0;      // from a failure to the first step; may fail too
  double interval_s = 0;     // of work between checkpoints; 0: the best of a second or more
};

// "mtbf=50000h checkpoint=60s restart=5min every=30min": the mean time between failures of one
// device, and, where they differ from these: what a checkpoint and a restart take (60 s, 5 min),
// and how much work lies between checkpoints (what keeps most). Throws Error(kUsage) for other
// words, without mtbf, and for what expected_goodput refuses.
Reliability parse_reliability(std::string_view text, std::int64_t devices);

struct Goodput {
  double interval_s = 0;
  double failures_per_day = 0;
  // Shares of the wall time; they add up to 1.
  double useful = 0, checkpoints = 0, lost = 0, restarts = 0;
};

// Expected values, after J. T. Daly, "A higher order estimate of the optimum checkpoint interval
// for restart dumps" (2006), equation 20: a segment of w seconds takes
//   M exp(R / M) (exp((w + C) / M) - 1),  M = MTBF / devices.
// Throws Error(kUsage) for times that are negative or no numbers, a mean time that is not above
// zero, and devices below 1.
Goodput expected_goodput(const Reliability& reliability);

// Wall time of `work_s` seconds of work, one per run, failure by failure; ascending. The same seed
// gives the same times. Throws as above, when a run is not expected to end within 10^6 failures,
// and for more than 10^8 checkpoints in all runs.
std::vector<double> simulate_failures(const Reliability& reliability, double work_s,
                                      std::int64_t runs, std::uint64_t seed);

}  // namespace sextant
