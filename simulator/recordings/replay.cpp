// Step mode with devices that remember.
#include "simulator/recordings/replay.h"

#include "actor/protocol/dry_run.h"
#include "actor/protocol/program_tables.h"
#include "actor/runtime.h"
#include "core/base/check.h"
#include "simulator/recordings/replay_device.h"
#include "simulator/steps/run_facts.h"

#include <algorithm>
#include <memory>
#include <span>
#include <utility>

namespace sextant {
namespace {

// Recordings say themselves how long communications take.
class NoNetwork final : public NetworkModel {
 public:
  void complete(const CollectiveCost&, std::span<const Time> arrivals,
                std::span<Time> done) const override {
    std::fill(done.begin(), done.end(), *std::max_element(arrivals.begin(), arrivals.end()));
  }
  Duration duration(const CollectiveCost&) const override { return {}; }
};

using LaunchesByRank = std::vector<std::vector<RecordedLaunch>>;

LaunchesByRank by_rank(const Recording& recording) {
  LaunchesByRank launches(static_cast<std::size_t>(recording.header.ranks));
  for (const RecordedLaunch& launch : recording.launches)
    launches[launch.rank.index()].push_back(launch);
  return launches;
}

std::string launch_text(const PhysicalGraph& plan, Rank rank, std::int64_t step, RunId run) {
  if (run.index() >= plan.program_of(rank).order.size())
    return fmt::format("run {} of step {}", run.value, step);
  return fmt::format("{} of step {}", run_to_text(plan, plan.ranks[rank].program, run), step);
}

std::optional<std::string> rank_difference(const PhysicalGraph& plan, Rank rank,
                                           std::span<const RecordedLaunch> launches,
                                           std::int64_t steps) {
  const std::size_t per_step = plan.program_of(rank).order.size();
  for (std::size_t i = 0; i < per_step * static_cast<std::size_t>(steps); ++i) {
    const RunId run(i % per_step);
    const auto step = static_cast<std::int64_t>(i / per_step);
    const std::string wanted = launch_text(plan, rank, step, run);
    if (i >= launches.size())
      return fmt::format("rank {}, launch {}: the recording ends, the plan issues {}", rank.value,
                         i, wanted);
    if (launches[i].run != run || launches[i].step != step)
      return fmt::format("rank {}, launch {}: recorded is {}, the plan issues {}", rank.value, i,
                         launch_text(plan, rank, launches[i].step, launches[i].run), wanted);
    const QueueRole queue = first_actor_of(plan, rank, run).queue;
    if (launches[i].queue != queue)
      return fmt::format("rank {}, launch {}, {}: recorded on queue {}, the plan has it on {}",
                         rank.value, i, wanted, to_string(launches[i].queue), to_string(queue));
  }
  if (launches.size() == per_step * static_cast<std::size_t>(steps)) return std::nullopt;
  return fmt::format("rank {}: {} launches recorded in {} steps, the plan issues {} in each",
                     rank.value, launches.size(), steps, per_step);
}

std::optional<std::string> difference(const PhysicalGraph& plan, const LaunchesByRank& launches,
                                      std::int64_t steps) {
  if (plan.ranks.size() != launches.size())
    return fmt::format("recorded are {} ranks, the plan has {}", launches.size(),
                       plan.ranks.size());
  for (std::size_t rank = 0; rank < launches.size(); ++rank)
    if (auto found = rank_difference(plan, Rank(rank), launches[rank], steps)) return found;
  return std::nullopt;
}

void add(const Contradiction& of_rank, Contradiction& sum) {
  if (sum.launches == 0) sum.first = of_rank.first;
  sum.launches += of_rank.launches;
}

using Devices = std::vector<std::unique_ptr<ReplayDevice>>;

// All ranks, each issue in the dry run's global order.
Devices run_again(const PhysicalGraph& plan, const LaunchesByRank& launches, std::int64_t steps,
                  bool start_delays) {
  const NoNetwork network;
  Fabric recorded(plan, network, all_ranks(plan)), replayed(plan, network, all_ranks(plan));
  IdleHostActors host;
  GraphTables tables(plan);
  const DryRun dry = dry_run(plan, RankScope::kAllRanks);
  Devices devices;
  std::vector<RankRuntime> runtimes;
  for (std::size_t rank = 0; rank < launches.size(); ++rank) {
    devices.push_back(std::make_unique<ReplayDevice>(ReplayFabrics{recorded, replayed},
                                                     launches[rank], start_delays));
    devices.back()->prepare(plan, Rank(rank));
    runtimes.emplace_back(plan, Rank(rank), tables.of(plan.ranks[Rank(rank)].program),
                          *devices.back(), host);
  }
  for (std::int64_t step = 0; step < steps; ++step)
    for (const Issue& issue : dry.order) runtimes[issue.rank.index()].issue_next();
  return devices;
}

std::vector<Duration> times_between(const std::vector<Time>& ends, Time first) {
  std::vector<Duration> times;
  for (const Time end : ends) times.push_back(end - std::exchange(first, end));
  return times;
}

// Behind the warm-up, in the order of time; all where there is nothing behind it.
std::vector<std::size_t> steps_by_time(const std::vector<Duration>& times, std::int64_t warm_up) {
  const auto skipped = static_cast<std::size_t>(warm_up);
  std::vector<std::size_t> steps;
  for (std::size_t step = skipped < times.size() ? skipped : 0; step < times.size(); ++step)
    steps.push_back(step);
  std::stable_sort(steps.begin(), steps.end(),
                   [&](std::size_t a, std::size_t b) { return times[a] < times[b]; });
  return steps;
}

std::vector<Time> recorded_ends(const Recording& recording) {
  std::vector<Time> ends(static_cast<std::size_t>(recording.header.steps));
  for (const RecordedLaunch& launch : recording.launches) {
    Time& end = ends[static_cast<std::size_t>(launch.step)];
    end = std::max(end, launch.end);
  }
  return ends;
}

RankTimeline timeline_of(const PhysicalGraph& plan, Rank rank, const ReplayDevice& device,
                         std::int64_t step) {
  RankTimeline timeline{rank, 1, {}};
  for (const ReplayDevice::Launched& launch : device.launched())
    if (launch.step == step)
      timeline.runs.push_back({launch.run, first_actor_of(plan, rank, launch.run).queue,
                               is_optimizer(plan, rank, launch.run), launch.issued, launch.arrived,
                               launch.begin, launch.end});
  return timeline;
}

}  // namespace

std::optional<std::string> order_difference(const PhysicalGraph& plan, const Recording& recording) {
  return difference(plan, by_rank(recording), recording.header.steps);
}

std::vector<Duration> step_times(const Recording& recording) {
  if (recording.launches.empty()) return {};
  Time first = recording.launches.front().issued;
  for (const RecordedLaunch& launch : recording.launches) first = std::min(first, launch.issued);
  return times_between(recorded_ends(recording), first);
}

Duration median_step_time(const Recording& recording) {
  const std::vector<Duration> times = step_times(recording);
  if (times.empty()) return {};
  const auto steps = steps_by_time(times, recording.header.warm_up_steps);
  return times[steps[steps.size() / 2]];
}

Duration mean_step_time(std::span<const Time> ends, std::int64_t warm_up_steps) {
  const auto steps = static_cast<std::int64_t>(ends.size());
  const std::int64_t first = warm_up_steps < steps ? warm_up_steps : 0;
  if (steps == 0) return {};
  const Time begin = first > 0 ? ends[static_cast<std::size_t>(first - 1)] : Time();
  return Duration((ends.back() - begin).value / (steps - first));
}

ReplayedRun replay(const PhysicalGraph& plan, const Recording& recording,
                   const ReplayOptions& options) {
  const LaunchesByRank launches = by_rank(recording);
  const std::int64_t steps = recording.header.steps;
  if (const auto found = difference(plan, launches, steps))
    fail(ErrorCode::kBadInput, "the recording is not of this plan: {}", *found);
  const Devices devices = run_again(plan, launches, steps, options.start_delays);

  ReplayedRun run;
  run.step_end.resize(static_cast<std::size_t>(steps));
  for (const auto& device : devices) {
    for (const ReplayDevice::Launched& launch : device->launched()) {
      Time& end = run.step_end[static_cast<std::size_t>(launch.step)];
      end = std::max(end, launch.end);
    }
    add(device->early(), run.early);
    add(device->waits(), run.waits);
  }
  const auto order = steps_by_time(step_times(recording), recording.header.warm_up_steps);
  run.step = options.step ? *options.step : static_cast<std::int64_t>(order[order.size() / 2]);
  Timeline& timeline = run.timeline;
  timeline.step_end.assign(run.step_end.begin(), run.step_end.begin() + run.step + 1);
  for (std::size_t rank = 0; rank < devices.size(); ++rank) {
    timeline.ranks.push_back(timeline_of(plan, Rank(rank), *devices[rank], run.step));
    timeline.place_of.push_back(static_cast<std::int32_t>(rank));
    timeline.events += static_cast<std::int64_t>(devices[rank]->launched().size());
  }
  return run;
}

}  // namespace sextant
