// One thread drives all ranks; the dry run's order never lets it wait for a rank behind it.

#include "simulator/modes/step_mode.h"

#include "actor/runtime.h"
#include "simulator/modes/fabric.h"
#include "simulator/modes/sim_device.h"
#include "simulator/steps/run_facts.h"

#include <algorithm>
#include <map>
#include <memory>

namespace sextant {

namespace {

std::map<Rank, std::size_t> index_by_rank(const std::vector<Rank>& ranks) {
  std::map<Rank, std::size_t> index;
  for (std::size_t i = 0; i < ranks.size(); ++i) index.emplace(ranks[i], i);
  return index;
}

void collect(const PhysicalGraph& graph, const SimDevice& device, RankTimeline& rank,
             std::vector<Time>& step_end) {
  const auto last_step = static_cast<std::int64_t>(step_end.size()) - 1;
  for (const SimLaunch& launch : device.launches()) {
    Time& end = step_end[static_cast<std::size_t>(launch.step)];
    end = std::max(end, launch.end);
    if (launch.step != last_step) continue;
    rank.runs.push_back({launch.run, first_actor_of(graph, rank.rank, launch.run).queue,
                         is_optimizer(graph, rank.rank, launch.run), launch.issued, launch.arrived,
                         launch.begin, launch.end});
  }
}

}  // namespace

Timeline run_step_mode(const ProvenGraph& proven, const RankClasses& classes,
                       std::span<const std::int32_t> group_colours, const CostModel& cost,
                       const NetworkModel& network, const SimulateOptions& options) {
  const PhysicalGraph& graph = proven.graph();
  const std::shared_ptr<const DryRun> dry = proven.dry_run_of(classes);
  Fabric fabric(graph, network, classes, group_colours);
  IdleHostActors host;
  RuntimeOptions runtime_options;
  runtime_options.window = options.window;
  std::vector<std::unique_ptr<SimDevice>> devices;
  std::vector<RankRuntime> runtimes;
  for (const Rank rank : dry->ranks) {
    devices.push_back(std::make_unique<SimDevice>(
        fabric, cost, SimDeviceOptions{options.jitter, options.seed, false}));
    devices.back()->prepare(graph, rank);
    runtimes.emplace_back(graph, rank, proven.tables().of(graph.ranks[rank].program),
                          *devices.back(), host, runtime_options);
  }
  const std::map<Rank, std::size_t> index = index_by_rank(dry->ranks);
  for (std::int64_t step = 0; step < options.steps; ++step) {
    if (step + 1 == options.steps && options.keep_traffic) fabric.count_traffic();
    for (const Issue& issue : dry->order) runtimes[index.at(issue.rank)].issue_next();
  }

  Timeline timeline;
  timeline.traffic = fabric.traffic();
  timeline.step_end.resize(static_cast<std::size_t>(options.steps));
  timeline.ranks = empty_timelines(dry->ranks, classes);
  timeline.place_of = classes.class_of;
  for (std::size_t i = 0; i < devices.size(); ++i) {
    collect(graph, *devices[i], timeline.ranks[i], timeline.step_end);
    timeline.events += static_cast<std::int64_t>(devices[i]->launches().size());
    timeline.issued.push_back(runtimes[i].hash());
  }
  return timeline;
}

}  // namespace sextant
