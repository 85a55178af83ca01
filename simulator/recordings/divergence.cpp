// Launches of both sides are matched by rank and run.
#include "simulator/recordings/divergence.h"

#include "simulator/steps/run_facts.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <utility>

namespace sextant {
namespace {

// Launches that start together with one of their kind in front of them are one with it: all of them
// are under way from the first begin to the last end.
bool is_counted(const PhysicalGraph& plan, Rank rank, RunId run) {
  const Table<RunId, Run>& order = plan.program_of(rank).order;
  const LaunchGroupId group = order[run].launch_group;
  if (!group.is_valid() || run == RunId(0)) return true;
  const RunId before = run.plus(-1);
  return order[before].launch_group != group ||
         kind_of_launch(plan, rank, before) != kind_of_launch(plan, rank, run);
}

Duration mean(Duration sum, const Timeline& timeline) {
  return Duration(sum.value /
                  std::max<std::int64_t>(1, static_cast<std::int64_t>(timeline.ranks.size())));
}

using RunsByPlace = std::map<std::pair<Rank, RunId>, const TimedRun*>;

RunsByPlace runs_of(const Timeline& timeline) {
  RunsByPlace runs;
  for (const RankTimeline& rank : timeline.ranks)
    for (const TimedRun& run : rank.runs) runs[{rank.rank, run.run}] = &run;
  return runs;
}

Time latest_before(const Timeline& timeline, Rank rank, const TimedRun& timed) {
  Time latest;
  for (const RankTimeline& other : timeline.ranks)
    if (other.rank == rank)
      for (const TimedRun& run : other.runs)
        if (run.end <= timed.begin && run.run < timed.run) latest = std::max(latest, run.end);
  return latest;
}

// What held it up most, beside what was predicted: its own length, its peers, its host, or the
// rest.
DelayCause cause_of(const Timeline& recorded, Rank rank, const TimedRun& was,
                    const TimedRun& planned, Time was_origin, Time planned_origin) {
  const Duration longer = (was.end - was.arrived) - (planned.end - planned.arrived);
  const Duration peers = (was.arrived - was.begin) - (planned.arrived - planned.begin);
  const Duration begin = (was.begin - was_origin) - (planned.begin - planned_origin);
  if (longer >= std::max(peers, begin)) return DelayCause::kItself;
  if (peers >= begin) return DelayCause::kPeers;
  const Time others = latest_before(recorded, rank, was);
  const Time might = std::max(was.issued, others);
  if (was.begin - might > begin - (was.begin - might)) return DelayCause::kItself;
  return was.issued >= others ? DelayCause::kHost : DelayCause::kWaits;
}

}  // namespace

std::string_view to_string(DelayCause cause) {
  switch (cause) {
    case DelayCause::kItself:
      return "itself";
    case DelayCause::kHost:
      return "the host that issued it";
    case DelayCause::kWaits:
      return "what it waited for";
    case DelayCause::kPeers:
      return "the last member of the communication";
  }
  return "?";
}

std::string kind_of_launch(const PhysicalGraph& plan, Rank rank, RunId run) {
  const Actor& first = first_actor_of(plan, rank, run);
  if (plan.program_of(rank).order[run].num_actors == 1) return first.kind;
  return std::string(to_string(first.phase));
}

std::vector<LaunchTimes> launch_times(const PhysicalGraph& plan, const Timeline& predicted,
                                      const Timeline& recorded, const LaunchName& name) {
  std::map<std::string, LaunchTimes> by_name;
  for (const RankTimeline& rank : predicted.ranks)
    for (const TimedRun& run : rank.runs) {
      if (!is_counted(plan, rank.rank, run.run)) continue;
      LaunchTimes& times = by_name[name(rank.rank, run.run)];
      times.predicted += run.end - run.arrived;
      times.predicted_wait += run.arrived - run.begin;
    }
  for (const RankTimeline& rank : recorded.ranks)
    for (const TimedRun& run : rank.runs) {
      if (!is_counted(plan, rank.rank, run.run)) continue;
      LaunchTimes& times = by_name[name(rank.rank, run.run)];
      ++times.launches;
      // A sender may be over before its receiver has come.
      const Time arrived = std::min(run.arrived, run.end);
      times.recorded += run.end - arrived;
      times.recorded_wait += arrived - run.begin;
    }
  std::vector<LaunchTimes> rows;
  for (auto& [one, times] : by_name)
    rows.push_back({one, times.launches, mean(times.predicted, predicted),
                    mean(times.recorded, recorded), mean(times.predicted_wait, predicted),
                    mean(times.recorded_wait, recorded)});
  std::stable_sort(rows.begin(), rows.end(), [](const LaunchTimes& a, const LaunchTimes& b) {
    return a.recorded + a.recorded_wait > b.recorded + b.recorded_wait;
  });
  return rows;
}

std::optional<Divergence> first_divergence(const Timeline& predicted, const Timeline& recorded,
                                           double tolerance) {
  const RunsByPlace were = runs_of(recorded);
  const Time planned_origin = predicted.origin(), was_origin = recorded.origin();
  const auto allowed =
      static_cast<std::int64_t>(tolerance * static_cast<double>(predicted.step_time().value));
  std::optional<Divergence> first;
  for (const RankTimeline& rank : predicted.ranks)
    for (const TimedRun& planned : rank.runs) {
      const auto found = were.find({rank.rank, planned.run});
      if (found == were.end()) continue;
      const TimedRun& was = *found->second;
      const Divergence here{rank.rank,
                            planned.run,
                            DelayCause::kItself,
                            planned.begin - planned_origin,
                            planned.end - planned_origin,
                            was.begin - was_origin,
                            was.end - was_origin};
      if (std::abs(here.late().value) <= allowed) continue;
      if (first && std::tie(first->predicted_end, first->rank, first->run) <=
                       std::tie(here.predicted_end, here.rank, here.run))
        continue;
      first = here;
      first->cause = cause_of(recorded, rank.rank, was, planned, was_origin, planned_origin);
    }
  return first;
}

}  // namespace sextant
