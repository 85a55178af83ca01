// A walk over the borders of all intervals of one rank, folded onto one period.

#include "simulator/step_parts.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <vector>

namespace sextant {

namespace {

// What is going on at an instant.
enum class Activity : std::uint8_t { kOptimizer, kCompute, kCommunication, kOutstanding };
constexpr std::size_t kNumActivities = 4;

struct Interval {
  std::int64_t begin = 0, end = 0;
};
bool earlier(const Interval& a, const Interval& b) { return a.begin < b.begin; }

// When one activity is going on. What comes in order, or overlaps the one before, is not sorted.
class Intervals {
 public:
  void add(Interval added) {
    if (added.begin >= added.end) return;
    if (all_.size() > strand_) {
      Interval& last = all_.back();
      if (added.begin >= last.begin && added.begin <= last.end) {
        last.end = std::max(last.end, added.end);
        return;
      }
      if (added.begin < last.begin) end_strand();
    }
    all_.push_back(added);
  }

  // What follows may begin earlier than what came before.
  void end_strand() {
    const auto middle = all_.begin() + static_cast<std::ptrdiff_t>(strand_);
    std::inplace_merge(all_.begin(), middle, all_.end(), earlier);
    strand_ = all_.size();
  }

  // The same as disjoint intervals in order.
  std::vector<Interval> apart() {
    end_strand();
    std::vector<Interval> apart;
    for (const Interval& next : all_) {
      if (!apart.empty() && next.begin <= apart.back().end)
        apart.back().end = std::max(apart.back().end, next.end);
      else
        apart.push_back(next);
    }
    return apart;
  }

 private:
  std::vector<Interval> all_;
  std::size_t strand_ = 0;  // those before it are in order
};

// Modulo the period.
std::vector<Interval> folded(const std::vector<Interval>& intervals, std::int64_t period) {
  Intervals inside;
  std::int64_t origin = 0;
  for (Interval next : intervals) {
    next.end = std::min(next.end, next.begin + period);
    while (next.begin < next.end) {
      if (next.begin >= origin + period) {
        inside.end_strand();
        origin = next.begin / period * period;
      }
      inside.add({next.begin - origin, std::min(next.end - origin, period)});
      next.begin = origin + period;
    }
  }
  return inside.apart();
}

class Sweep {
 public:
  explicit Sweep(std::int64_t period) : period_(period) {}

  Intervals& of(Activity activity) { return intervals_[static_cast<std::size_t>(activity)]; }

  PartDurations parts() {
    std::array<std::vector<Interval>, kNumActivities> all;
    for (std::size_t i = 0; i < kNumActivities; ++i)
      all[i] = folded(intervals_[i].apart(), period_);
    PartDurations parts{};
    std::array<std::size_t, kNumActivities> next{};
    for (std::int64_t now = 0; now < period_;) {
      std::int64_t border = period_;
      std::array<bool, kNumActivities> active{};
      for (std::size_t i = 0; i < kNumActivities; ++i) {
        if (next[i] < all[i].size() && all[i][next[i]].end <= now) ++next[i];
        if (next[i] == all[i].size()) continue;
        const Interval& interval = all[i][next[i]];
        active[i] = interval.begin <= now;
        border = std::min(border, active[i] ? interval.end : interval.begin);
      }
      parts[static_cast<std::size_t>(part_of(active))] += Duration(border - now);
      now = border;
    }
    return parts;
  }

 private:
  static TimePart part_of(const std::array<bool, kNumActivities>& active) {
    const auto is = [&](Activity one) { return active[static_cast<std::size_t>(one)]; };
    if (is(Activity::kOptimizer)) return TimePart::kOptimizer;
    if (is(Activity::kCompute)) return TimePart::kCompute;
    if (is(Activity::kCommunication)) return TimePart::kExposedCommunication;
    return is(Activity::kOutstanding) ? TimePart::kBubble : TimePart::kHost;
  }

  std::int64_t period_;
  std::array<Intervals, kNumActivities> intervals_;
};

void add(const TimedRun& run, Sweep& sweep) {
  if (run.queue == QueueRole::kCompute)
    sweep.of(run.optimizer ? Activity::kOptimizer : Activity::kCompute)
        .add({run.begin.value, run.end.value});
  else
    sweep.of(Activity::kCommunication).add({run.arrived.value, run.end.value});
  sweep.of(Activity::kOutstanding).add({run.issued.value, run.end.value});
}

}  // namespace

PartDurations parts_of(const RankTimeline& timeline, Duration period) {
  if (period.value <= 0) return {};
  Sweep sweep(period.value);
  std::array<bool, kNumQueueRoles> used{};
  for (const TimedRun& run : timeline.runs) used[static_cast<std::size_t>(run.queue)] = true;
  // The launches of one queue follow each other in time.
  for (std::size_t queue = 0; queue < kNumQueueRoles; ++queue) {
    if (!used[queue]) continue;
    for (const TimedRun& run : timeline.runs)
      if (static_cast<std::size_t>(run.queue) == queue) add(run, sweep);
    sweep.of(Activity::kCommunication).end_strand();
    sweep.of(Activity::kOutstanding).end_strand();
  }
  return sweep.parts();
}

}  // namespace sextant
