// Questions about the step as a whole.

#include "simulator/timeline.h"

#include <algorithm>

namespace sextant {

Duration Timeline::step_time() const {
  if (step_end.empty()) return {};
  if (step_end.size() == 1) return step_end.back();
  return step_end.back() - step_end[step_end.size() - 2];
}

Time Timeline::first_begin() const {
  Time first = step_end.empty() ? Time() : step_end.back();
  for (const RankTimeline& rank : ranks)
    for (const TimedRun& run : rank.runs) first = std::min(first, run.begin);
  return first;
}

}  // namespace sextant
