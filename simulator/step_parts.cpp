// A sweep over the borders of all intervals of one rank, folded onto one period.

#include "simulator/step_parts.h"

#include <algorithm>
#include <vector>

namespace sextant {

namespace {

// What is going on at an instant, as counts of intervals.
enum class Activity : std::uint8_t { kOptimizer, kCompute, kCommunication, kOutstanding };
constexpr std::size_t kNumActivities = 4;

struct Border {
  std::int64_t at = 0;
  Activity activity = Activity::kCompute;
  int change = 0;  // +1 where an interval begins, -1 where it ends
};

class Sweep {
 public:
  explicit Sweep(Duration period) : period_(period.value) {}

  // [begin, end), any number of periods from the start.
  void add(Activity activity, Time begin, Time end) {
    const std::int64_t length = std::min(end.value - begin.value, period_);
    if (length <= 0) return;
    const std::int64_t first = begin.value % period_;
    const std::int64_t last = first + length;
    add_inside(activity, first, std::min(last, period_));
    if (last > period_) add_inside(activity, 0, last - period_);
  }

  PartDurations parts() {
    std::sort(borders_.begin(), borders_.end(),
              [](const Border& a, const Border& b) { return a.at < b.at; });
    PartDurations parts{};
    std::array<int, kNumActivities> active{};
    std::int64_t now = 0;
    for (const Border& border : borders_) {
      parts[static_cast<std::size_t>(part_of(active))] += Duration(border.at - now);
      now = border.at;
      active[static_cast<std::size_t>(border.activity)] += border.change;
    }
    parts[static_cast<std::size_t>(part_of(active))] += Duration(period_ - now);
    return parts;
  }

 private:
  void add_inside(Activity activity, std::int64_t begin, std::int64_t end) {
    borders_.push_back({begin, activity, +1});
    borders_.push_back({end, activity, -1});
  }

  static StepPart part_of(const std::array<int, kNumActivities>& active) {
    const auto is = [&](Activity one) { return active[static_cast<std::size_t>(one)] > 0; };
    if (is(Activity::kOptimizer)) return StepPart::kOptimizer;
    if (is(Activity::kCompute)) return StepPart::kCompute;
    if (is(Activity::kCommunication)) return StepPart::kExposedCommunication;
    return is(Activity::kOutstanding) ? StepPart::kBubble : StepPart::kHost;
  }

  std::int64_t period_;
  std::vector<Border> borders_;
};

}  // namespace

PartDurations parts_of(const RankTimeline& timeline, Duration period) {
  if (period.value <= 0) return {};
  Sweep sweep(period);
  for (const TimedRun& run : timeline.runs) {
    if (run.queue == QueueRole::kCompute)
      sweep.add(run.optimizer ? Activity::kOptimizer : Activity::kCompute, run.begin, run.end);
    else
      sweep.add(Activity::kCommunication, run.arrived, run.end);
    sweep.add(Activity::kOutstanding, run.issued, run.end);
  }
  return sweep.parts();
}

}  // namespace sextant
