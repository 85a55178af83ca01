// One walk over two steps: collectives end in the order in which they were issued, so those that
// are open are the ones from `closed` to `issued`.
#include "actor/protocol/overlap.h"

#include <algorithm>
#include <cstdint>
#include <utility>

namespace sextant {

Overlap overlap_of(std::span<const RunEntry> runs, const ProgramWaits& waits) {
  constexpr int kSteps = 2;
  std::int64_t per_step = 0;
  for (const RunEntry& run : runs)
    if (run.queue == QueueRole::kCollective)
      per_step = std::max(per_step, std::int64_t{run.unit} + 1);
  // Launches, by their number over both steps.
  std::int64_t issued = 0, closed = 0, marked = 0;
  std::vector<bool> has_company(static_cast<std::size_t>(per_step));
  Overlap overlap{std::vector<bool>(runs.size())};
  for (int step = 0; step < kSteps; ++step)
    for (std::size_t r = 0; r < runs.size(); ++r) {
      const RunEntry& run = runs[r];
      if (run.queue == QueueRole::kCollective) issued = step * per_step + run.unit + 1;
      if (run.queue != QueueRole::kCompute) continue;
      for (const ProgramWait& wait : waits.of(static_cast<std::int32_t>(r))) {
        const RunEntry& awaited = runs[static_cast<std::size_t>(wait.run)];
        if (awaited.queue == QueueRole::kCollective)
          closed = std::max(closed, (step - wait.lag) * per_step + awaited.unit + 1);
      }
      if (issued <= closed) continue;
      overlap.beside[r] = true;
      for (marked = std::max(marked, closed); marked < issued; ++marked)
        has_company[static_cast<std::size_t>(marked % per_step)] = true;
    }
  for (std::size_t r = 0; r < runs.size(); ++r)
    if (runs[r].queue == QueueRole::kCollective)
      overlap.beside[r] = has_company[static_cast<std::size_t>(runs[r].unit)];
  return overlap;
}

namespace {

struct Interval {
  double begin = 0, end = 0;
};
using Intervals = std::vector<Interval>;  // by run

// One step behind another.
class StepWalk {
 public:
  StepWalk(std::span<const RunEntry> runs, const ProgramWaits& waits,
           std::span<const double> seconds)
      : runs_(runs), waits_(waits), seconds_(seconds), now_(runs.size()), before_(runs.size()) {}

  void walk() {
    std::swap(now_, before_);
    waited_ = 0;
    for (std::size_t r = 0; r < runs_.size(); ++r) now_[r] = interval_of(r);
  }

  double waited() const { return waited_; }

  // By a collective of this step or of the one before.
  bool begins_beside(std::size_t run) const {
    constexpr double kLeast = 0.1;
    if (runs_[run].queue != QueueRole::kCompute) return false;
    const Interval& own = now_[run];
    const double until = own.begin + kLeast * (own.end - own.begin);
    const auto covers = [&](const Intervals& step) {
      for (std::size_t r = 0; r < runs_.size(); ++r)
        if (runs_[r].queue == QueueRole::kCollective && step[r].begin <= own.begin &&
            step[r].end > until)
          return true;
      return false;
    };
    return covers(now_) || covers(before_);
  }

 private:
  Interval interval_of(std::size_t r) {
    double begin = 0, of_collectives = 0;
    for (const ProgramWait& wait : waits_.of(static_cast<std::int32_t>(r))) {
      const auto awaited = static_cast<std::size_t>(wait.run);
      const double end = wait.lag == 0 ? now_[awaited].end : before_[awaited].end;
      begin = std::max(begin, end);
      if (runs_[awaited].queue == QueueRole::kCollective)
        of_collectives = std::max(of_collectives, end);
    }
    if (runs_[r].queue == QueueRole::kCompute) {
      waited_ += std::max(0.0, of_collectives - computed_);
      begin = std::max(begin, computed_);
      return {begin, computed_ = begin + seconds_[r]};
    }
    if (runs_[r].queue == QueueRole::kCollective) {
      begin = std::max(begin, collected_);
      return {begin, collected_ = begin + seconds_[r]};
    }
    return {begin, begin};
  }

  const std::span<const RunEntry> runs_;
  const ProgramWaits& waits_;
  const std::span<const double> seconds_;
  Intervals now_, before_;
  double computed_ = 0, collected_ = 0, waited_ = 0;
};

}  // namespace

ModelledStep modelled_step(std::span<const RunEntry> runs, const ProgramWaits& waits,
                           std::span<const double> seconds) {
  constexpr int kSteps = 4;  // the first has nothing behind it
  StepWalk walk(runs, waits, seconds);
  for (int step = 0; step < kSteps; ++step) walk.walk();
  ModelledStep step{walk.waited(), std::vector<bool>(runs.size())};
  for (std::size_t r = 0; r < runs.size(); ++r) step.begins_beside[r] = walk.begins_beside(r);
  return step;
}

}  // namespace sextant
