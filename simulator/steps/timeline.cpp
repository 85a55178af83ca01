// Questions about the step as a whole.

#include "simulator/steps/timeline.h"

#include <algorithm>

namespace sextant {

Duration Timeline::step_time() const {
  if (step_end.empty()) return {};
  if (step_end.size() == 1) return step_end.back();
  return step_end.back() - step_end[step_end.size() - 2];
}

std::vector<Duration> Timeline::step_times() const {
  std::vector<Duration> times;
  Time before;
  for (const Time end : step_end) {
    times.push_back(end - before);
    before = end;
  }
  return times;
}

Time Timeline::first_begin() const {
  Time first = step_end.empty() ? Time() : step_end.back();
  for (const RankTimeline& rank : ranks)
    for (const TimedRun& run : rank.runs) first = std::min(first, run.begin);
  return first;
}

Time Timeline::origin() const {
  return step_end.size() < 2 ? first_begin() : step_end[step_end.size() - 2];
}

}  // namespace sextant
