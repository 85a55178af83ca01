// What one training run measured so far, as lines of metrics.jsonl and as lists. Steps come from a
// host thread, whoever keeps results may ask from another.
#pragma once

#include "cli/workflow.h"
#include "core/base/units.h"
#include "io/training_host.h"

#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

namespace sextant {

class RunRecorder {
 public:
  // The step times of the first `warm_up_steps` are not kept. Without `is_planned_device` there is
  // no MFU: the peak is another device's.
  RunRecorder(const PlannedJob& planned, Bytes peak_memory, std::int64_t warm_up_steps,
              bool is_planned_device);

  // Of the next step, in order; its time is that since the step before.
  void add(const StepMetrics& metrics);

  struct Steps {
    std::vector<double> losses;
    std::vector<double> times_s;        // after the warm-up
    std::vector<bool> skipped;          // no weight changed
    std::vector<std::int64_t> dropped;  // choices without a place; empty: nothing can be dropped
    std::int64_t choices_per_step = 0;  // that may be
    std::string lines;                  // of metrics.jsonl

    std::int64_t num_steps() const { return static_cast<std::int64_t>(losses.size()); }
    // Steps that changed no weight, and choices of experts without a place.
    std::int64_t num_skipped() const;
    std::int64_t num_dropped() const;
  };
  // All of it so far. Any thread.
  Steps steps() const;
  std::int64_t num_steps() const;
  std::string last_line() const;  // the last step for people; empty: none yet

 private:
  const PlannedJob& planned_;
  const Bytes peak_memory_;
  const std::int64_t warm_up_steps_;
  const bool is_planned_device_;
  mutable std::mutex mutex_;  // of what is below
  double last_s_;
  Steps steps_;
  std::string last_line_;
};

// "5.5412", "nan", "inf": a NaN has no sign.
std::string loss_text(double loss);

// The step changed no weight: its gradients were not finite, or it had no token.
bool is_skipped(const StepMetrics& metrics);

}  // namespace sextant
