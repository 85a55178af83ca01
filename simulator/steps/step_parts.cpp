// A walk over the borders of all intervals of one rank, folded onto one period.

#include "simulator/steps/step_parts.h"

#include "core/base/table.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <vector>

namespace sextant {

namespace {

// What is going on at an instant.
enum class Activity : std::uint8_t { kOptimizer, kCompute, kCommunication, kOutstanding };
constexpr std::size_t kNumActivities = 4;

using Stretch = Intervals::Stretch;
bool earlier(const Stretch& a, const Stretch& b) { return a.begin < b.begin; }

// Modulo the period.
std::vector<Stretch> folded(const std::vector<Stretch>& intervals, std::int64_t period) {
  Intervals inside;
  std::int64_t origin = 0;
  for (Stretch next : intervals) {
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

  void set(Activity activity, Intervals& intervals) {
    folded_[activity] = folded(intervals.apart(), period_);
  }

  PartDurations parts() const {
    PartDurations parts{};
    FixedTable<Activity, std::size_t, kNumActivities> next;
    for (std::int64_t now = 0; now < period_;) {
      std::int64_t border = period_;
      ActiveNow active;
      for (const Activity one : active.keys()) {
        const std::vector<Stretch>& all = folded_[one];
        if (next[one] < all.size() && all[next[one]].end <= now) ++next[one];
        if (next[one] == all.size()) continue;
        const Stretch& interval = all[next[one]];
        active[one] = interval.begin <= now;
        border = std::min(border, active[one] ? interval.end : interval.begin);
      }
      parts[position_of(part_of(active))] += Duration(border - now);
      now = border;
    }
    return parts;
  }

 private:
  using ActiveNow = FixedTable<Activity, bool, kNumActivities>;

  static TimePart part_of(const ActiveNow& active) {
    const auto is = [&](Activity one) { return active[one]; };
    if (is(Activity::kOptimizer)) return TimePart::kOptimizer;
    if (is(Activity::kCompute)) return TimePart::kCompute;
    if (is(Activity::kCommunication)) return TimePart::kExposedCommunication;
    return is(Activity::kOutstanding) ? TimePart::kBubble : TimePart::kHost;
  }

  std::int64_t period_;
  FixedTable<Activity, std::vector<Stretch>, kNumActivities> folded_;
};

}  // namespace

void Intervals::end_strand() {
  if (strand_ > 0) {
    const auto middle = all_.begin() + static_cast<std::ptrdiff_t>(strand_);
    std::inplace_merge(all_.begin(), middle, all_.end(), earlier);
  }
  strand_ = all_.size();
}

void Intervals::add_all(Intervals& others) {
  others.end_strand();
  end_strand();
  all_.insert(all_.end(), others.all_.begin(), others.all_.end());
  end_strand();
}

const std::vector<Stretch>& Intervals::apart() {
  end_strand();
  std::size_t kept = 0;
  for (const Stretch next : all_) {
    if (kept > 0 && next.begin <= all_[kept - 1].end)
      all_[kept - 1].end = std::max(all_[kept - 1].end, next.end);
    else
      all_[kept++] = next;
  }
  all_.resize(kept);
  strand_ = kept;
  return all_;
}

PartDurations RankActivity::parts(Duration period) {
  if (period.value <= 0) return {};
  Intervals communication;
  for (const QueueRole queue : of_queue_.keys())
    if (queue != QueueRole::kCompute) communication.add_all(of_queue_[queue]);
  Sweep sweep(period.value);
  sweep.set(Activity::kOptimizer, optimizer_);
  sweep.set(Activity::kCompute, of_queue_[QueueRole::kCompute]);
  sweep.set(Activity::kCommunication, communication);
  sweep.set(Activity::kOutstanding, outstanding_);
  return sweep.parts();
}

PartDurations parts_of(const RankTimeline& timeline, Duration period) {
  RankActivity activity;
  for (const TimedRun& run : timeline.runs)
    activity.add(run.queue, run.optimizer, run.issued,
                 run.queue == QueueRole::kCompute ? run.begin : run.arrived, run.end);
  return activity.parts(period);
}

}  // namespace sextant
