// Puts the modes, the accounting and the memory plan together.

#include "simulator/modes/simulate.h"

#include "actor/protocol/rank_classes.h"
#include "core/base/check.h"
#include "simulator/modes/group_colours.h"
#include "simulator/modes/prepared_blocks.h"
#include "simulator/modes/prepared_graph.h"
#include "simulator/modes/rank_colours.h"
#include "simulator/modes/step_mode.h"
#include "simulator/modes/tape_mode.h"
#include "simulator/modes/timed_mode.h"
#include "simulator/steps/step_parts.h"

#include <algorithm>
#include <limits>
#include <tuple>

namespace sextant {

namespace {

// ---------------------------------------------------------------- parts

class SpreadOfParts {
 public:
  void add(const PartDurations& parts, std::int64_t ranks) {
    for (std::size_t part = 0; part < kNumTimeParts; ++part) {
      sums_[part] += parts[part].value * ranks;
      least_[part] = std::min(least_[part], parts[part]);
      most_[part] = std::max(most_[part], parts[part]);
    }
    ranks_ += ranks;
  }

  StepParts::Spread of(TimePart part) const {
    const auto index = static_cast<std::size_t>(part);
    if (ranks_ == 0) return {};
    const double mean = static_cast<double>(sums_[index]) / static_cast<double>(ranks_);
    return {mean / static_cast<double>(kPicosecondsPerSecond), to_seconds(least_[index]),
            to_seconds(most_[index])};
  }

 private:
  static PartDurations filled(Duration value) {
    PartDurations all;
    all.fill(value);
    return all;
  }

  std::array<std::int64_t, kNumTimeParts> sums_{};
  PartDurations least_ = filled(Duration(std::numeric_limits<std::int64_t>::max()));
  PartDurations most_ = filled(Duration(0));
  std::int64_t ranks_ = 0;
};

StepParts spread_of(const Timeline& timeline, std::span<const PartDurations> of_rank) {
  SpreadOfParts spread;
  for (std::size_t r = 0; r < of_rank.size(); ++r) spread.add(of_rank[r], timeline.ranks[r].ranks);
  StepParts parts;
  parts.optimizer = spread.of(TimePart::kOptimizer);
  parts.compute = spread.of(TimePart::kCompute);
  parts.exposed_communication = spread.of(TimePart::kExposedCommunication);
  parts.host = spread.of(TimePart::kHost);
  parts.bubble = spread.of(TimePart::kBubble);
  return parts;
}

// ---------------------------------------------------------------- memory

void report_memory(const PhysicalGraph& graph, Simulation& simulation) {
  simulation.peak_memory_by_class.assign(kNumMemoryClasses, Bytes(0));
  for (const RankProgram& program : graph.programs) {
    if (program.arena.size <= simulation.peak_memory) continue;
    simulation.peak_memory = program.arena.size;
    simulation.peak_memory_by_class = program.arena.peak_by_class;
  }
}

// ---------------------------------------------------------------- slices

TraceSlice slice_of(const PhysicalGraph& graph, Rank rank, const TimedRun& timed, Time origin) {
  const Run& run = graph.program_of(rank).order[timed.run];
  TraceSlice slice{rank, timed.queue, "", timed.begin - origin, timed.end - origin, run.act};
  slice.name = actors_to_text(graph, graph.ranks[rank].program, run.instance, run.first_actor,
                              run.num_actors);
  return slice;
}

// A run's slice, and inside it one per operator while durations are those of the cost model.
void append_slices(const PhysicalGraph& graph, const CostModel& cost, Rank rank,
                   const TimedRun& timed, Time origin, std::vector<TraceSlice>& slices) {
  const RankProgram& program = graph.program_of(rank);
  const Run& run = program.order[timed.run];
  const Instance& instance = program.instances[run.instance];
  const Block& block = graph.block_of(instance);
  const TraceSlice slice = slice_of(graph, rank, timed, origin);
  slices.push_back(slice);
  if (run.num_actors <= 1) return;
  Time begin = slice.begin;
  for (std::int32_t i = 0; i < run.num_actors; ++i) {
    const Actor& actor = block.actors[static_cast<std::size_t>(run.first_actor + i)];
    const Time end = std::min(begin + cost.duration_on(rank, actor.work), slice.end);
    slices.push_back(
        {rank, timed.queue, graph.actor_name(instance, run.first_actor + i), begin, end, run.act});
    begin = end;
  }
}

std::vector<TimedRun> by_queue(std::vector<TimedRun> runs) {
  std::stable_sort(runs.begin(), runs.end(), [](const TimedRun& a, const TimedRun& b) {
    return std::tie(a.queue, a.begin, a.end) < std::tie(b.queue, b.begin, b.end);
  });
  return runs;
}

std::vector<TraceSlice> slices_of(const PhysicalGraph& graph, const CostModel& cost,
                                  const Timeline& timeline) {
  const Time origin = timeline.first_begin();
  std::vector<TraceSlice> slices;
  for (const RankTimeline& rank : timeline.ranks)
    for (const TimedRun& run : by_queue(rank.runs))
      append_slices(graph, cost, rank.rank, run, origin, slices);
  return slices;
}

}  // namespace

std::vector<TraceSlice> run_slices(const PhysicalGraph& graph, const Timeline& timeline) {
  const Time origin = timeline.first_begin();
  std::vector<TraceSlice> slices;
  for (const RankTimeline& rank : timeline.ranks)
    for (const TimedRun& run : by_queue(rank.runs))
      slices.push_back(slice_of(graph, rank.rank, run, origin));
  return slices;
}

void validate(const SimulateOptions& options) {
  require(options.steps >= 1, ErrorCode::kUsage, "{} steps: at least 1", options.steps);
  require(options.window >= 1, ErrorCode::kUsage, "a window of {} launches: at least 1",
          options.window);
  require(options.jitter >= 0 && options.jitter <= 1, ErrorCode::kUsage,
          "jitter {}: between 0 and 1", options.jitter);
  require(options.overlap.empty() || options.mode == SimulationMode::kTimed, ErrorCode::kUsage,
          "overlap shares: only timed mode knows what runs beside what");
}

bool folds(const SimulateOptions& options) {
  return options.folded && options.jitter == 0 && !options.keep_traffic;
}

Timeline simulate_timeline(const ProvenGraph& proven, const CostModel& cost,
                           const NetworkModel& network, const SimulateOptions& options) {
  validate(options);
  if (options.mode == SimulationMode::kTape)
    return PreparedGraph(proven, cost, network, options).first_timeline(cost, network, options);
  if (options.mode == SimulationMode::kBlock)
    return PreparedBlocks(proven, cost, network, options).timeline(cost, network, options);
  const PhysicalGraph& graph = proven.graph();
  const std::vector<std::int32_t> ranks =
      folds(options) ? rank_colours(graph, cost) : std::vector<std::int32_t>{};
  if (options.mode == SimulationMode::kTimed)
    return run_timed_mode(proven, ranks, folds(options), cost, network, options);
  const std::vector<std::int32_t> groups = folds(options)
                                               ? group_colours(graph, proven.members(), network)
                                               : std::vector<std::int32_t>{};
  const RankClasses classes =
      folds(options) ? rank_classes(graph, proven.members(), ranks, groups, member_order(network))
                     : all_ranks(graph);
  return run_step_mode(proven, classes, groups, cost, network, options);
}

Timeline simulate_timeline(const PhysicalGraph& graph, const CostModel& cost,
                           const NetworkModel& network, const SimulateOptions& options) {
  validate(options);
  return simulate_timeline(ProvenGraph(graph), cost, network, options);
}

Simulation simulation_of(const PhysicalGraph& graph, const Timeline& timeline,
                         std::span<const PartDurations> parts) {
  Simulation simulation;
  simulation.step_time = timeline.step_time();
  simulation.step_times = timeline.step_times();
  simulation.parts = spread_of(timeline, parts);
  report_memory(graph, simulation);
  simulation.ranks_simulated = static_cast<std::int64_t>(timeline.ranks.size());
  simulation.events = timeline.events;
  simulation.blocks = timeline.blocks;
  simulation.traffic = pairs_of(timeline.traffic);
  return simulation;
}

Simulation simulation_of(const PhysicalGraph& graph, const CostModel& cost,
                         const Timeline& timeline, const SimulateOptions& options) {
  std::vector<PartDurations> parts;
  for (const RankTimeline& rank : timeline.ranks)
    parts.push_back(parts_of(rank, timeline.step_time()));
  Simulation simulation = simulation_of(graph, timeline, parts);
  if (options.keep_slices) simulation.slices = slices_of(graph, cost, timeline);
  return simulation;
}

Simulation simulate(const ProvenGraph& proven, const CostModel& cost, const NetworkModel& network,
                    const SimulateOptions& options) {
  validate(options);
  if (options.mode == SimulationMode::kTape)
    return PreparedGraph(proven, cost, network, options).first_simulation(cost, network, options);
  return simulation_of(proven.graph(), cost, simulate_timeline(proven, cost, network, options),
                       options);
}

Simulation simulate(const PhysicalGraph& graph, const CostModel& cost, const NetworkModel& network,
                    const SimulateOptions& options) {
  validate(options);
  return simulate(ProvenGraph(graph), cost, network, options);
}

}  // namespace sextant
