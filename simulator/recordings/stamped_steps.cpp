// Stamps of a run's kernels become one launch; members of a communication are matched by group and
// number.
#include "simulator/recordings/stamped_steps.h"

#include "simulator/steps/run_facts.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>

namespace sextant {
namespace {

struct Launched {
  Duration begin, end;
};
using StepOfRank = std::map<RunId, Launched>;

std::vector<StepOfRank> launches_by_step(const std::vector<Stamp>& stamps, std::int64_t steps) {
  std::vector<StepOfRank> launches(static_cast<std::size_t>(steps));
  for (const Stamp& stamp : stamps) {
    const auto [place, is_first] = launches[static_cast<std::size_t>(stamp.step)].try_emplace(
        stamp.run, Launched{stamp.begin, stamp.end});
    if (is_first) continue;
    Launched& launched = place->second;
    launched.begin = std::min(launched.begin, stamp.begin);
    launched.end = std::max(launched.end, stamp.end);
  }
  return launches;
}

Duration end_of(const StepOfRank& step) {
  Duration end;
  for (const auto& [run, launched] : step) end = std::max(end, launched.end);
  return end;
}

// The n-th communication of a group in a step.
using Meeting = std::pair<GroupId, std::int64_t>;

class StampedStep {
 public:
  explicit StampedStep(const PhysicalGraph& graph) : graph_(graph) {}

  void add(Rank rank, const StepOfRank& step, Duration before) {
    timeline_.place_of.push_back(static_cast<std::int32_t>(timeline_.ranks.size()));
    timeline_.ranks.push_back({rank, 1, {}});
    period_ = std::max(period_, end_of(step) - before);
    std::map<GroupId, std::int64_t> met;
    for (const auto& [run, launched] : step) {
      const Actor& actor = first_actor_of(graph_, rank, run);
      const Time begin(launched.begin.value - before.value), end(launched.end.value - before.value);
      if (actor.communication) {
        const GroupId group =
            graph_.ranks[rank].groups[static_cast<std::size_t>(actor.communication->group)];
        const Meeting meeting{group, met[group]++};
        meetings_.push_back(meeting);
        const auto [shortest, is_first] = shortest_.try_emplace(meeting, end - begin);
        if (!is_first) shortest->second = std::min(shortest->second, end - begin);
      }
      timeline_.ranks.back().runs.push_back(
          {run, actor.queue, is_optimizer(graph_, rank, run), begin, begin, begin, end});
    }
  }

  Timeline take() {
    auto meeting = meetings_.begin();
    // Launches that began before the step did have times after zero too.
    const Duration origin(2 * period_.value);
    for (RankTimeline& rank : timeline_.ranks)
      for (TimedRun& run : rank.runs) {
        if (first_actor_of(graph_, rank.rank, run.run).communication)
          run.arrived = run.end - shortest_.at(*meeting++);
        for (Time* time : {&run.issued, &run.arrived, &run.begin, &run.end})
          *time = std::max(Time(), *time + origin);
      }
    timeline_.step_end = {Time() + origin, Time() + origin + period_};
    return std::move(timeline_);
  }

 private:
  const PhysicalGraph& graph_;
  Timeline timeline_;
  Duration period_;
  std::vector<Meeting> meetings_;  // of the communications in the order they were added
  std::map<Meeting, Duration> shortest_;
};

}  // namespace

std::vector<Timeline> stamped_steps(const PhysicalGraph& graph,
                                    const std::vector<std::vector<Stamp>>& stamps) {
  std::int64_t steps = 0;
  for (const std::vector<Stamp>& rank : stamps)
    for (const Stamp& stamp : rank) steps = std::max(steps, stamp.step + 1);
  std::vector<std::vector<StepOfRank>> launches;
  launches.reserve(stamps.size());
  for (const std::vector<Stamp>& rank : stamps) launches.push_back(launches_by_step(rank, steps));
  std::vector<Timeline> timelines;
  for (std::int64_t step = 1; step < steps; ++step) {
    const auto now = static_cast<std::size_t>(step);
    StampedStep stamped(graph);
    for (std::size_t rank = 0; rank < launches.size(); ++rank)
      stamped.add(Rank(rank), launches[rank][now], end_of(launches[rank][now - 1]));
    timelines.push_back(stamped.take());
  }
  return timelines;
}

}  // namespace sextant
