// Fused operators without a kernel run their members, so those are what is timed.
#include "experiments/step_timing.h"

#include <string_view>
#include <utility>

namespace sextant {
namespace {

TimedLaunch timed(const StepLaunch& launch, bool is_member, KernelTimer& timer) {
  return {.kind = launch.kind(),
          .types = launch.types(),
          .count = launch.count,
          .calls = static_cast<std::int64_t>(launch.calls.size()),
          .work = launch.work(),
          .works = launch.works,
          .is_member = is_member,
          .ends = {},
          .timing = timer.time(launch.calls)};
}

}  // namespace

double TimedLaunch::seconds_per_step() const {
  return timing ? timing->median_s * static_cast<double>(count) : 0;
}

std::vector<TimedLaunch> time_step(const PhysicalGraph& graph, KernelTimer& timer) {
  StepLaunches step(graph, Rank(0),
                    [&timer](std::string_view kind) { return timer.go_together(kind); });
  std::vector<TimedLaunch> all;
  for (const StepLaunch& launch : step.launches()) {
    TimedLaunch made = timed(launch, false, timer);
    const bool needs_members = !made.timing && !launch.calls.front().actor->members.empty();
    if (!needs_members) {
      all.push_back(std::move(made));
      continue;
    }
    for (const StepLaunch& member : step.members(launch)) all.push_back(timed(member, true, timer));
    all.back().ends = launch.work();
  }
  return all;
}

}  // namespace sextant
