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

double waiting_time(std::span<const RunEntry> runs, const ProgramWaits& waits,
                    std::span<const double> seconds) {
  constexpr int kSteps = 4;  // the first has nothing behind it
  std::vector<double> ends(runs.size()), ends_before(runs.size());
  double computed = 0, collected = 0, waited = 0;
  for (int step = 0; step < kSteps; ++step) {
    waited = 0;
    for (std::size_t r = 0; r < runs.size(); ++r) {
      double begin = 0, of_collectives = 0;
      for (const ProgramWait& wait : waits.of(static_cast<std::int32_t>(r))) {
        const auto awaited = static_cast<std::size_t>(wait.run);
        const double end = wait.lag == 0 ? ends[awaited] : ends_before[awaited];
        begin = std::max(begin, end);
        if (runs[awaited].queue == QueueRole::kCollective)
          of_collectives = std::max(of_collectives, end);
      }
      if (runs[r].queue == QueueRole::kCompute) {
        waited += std::max(0.0, of_collectives - computed);
        begin = std::max(begin, computed);
        computed = begin + seconds[r];
      } else if (runs[r].queue == QueueRole::kCollective) {
        begin = std::max(begin, collected);
        collected = begin + seconds[r];
      }
      const bool takes_time =
          runs[r].queue == QueueRole::kCompute || runs[r].queue == QueueRole::kCollective;
      ends[r] = begin + (takes_time ? seconds[r] : 0);
    }
    std::swap(ends, ends_before);
  }
  return waited;
}

}  // namespace sextant
