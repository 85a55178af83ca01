// Launches of the simulated step under the names that a run has for them.
#include "cli/runs/predicted_times.h"

#include "core/base/quantile.h"
#include "simulator/costs/overlap.h"
#include "simulator/modes/simulate.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>

namespace sextant {
namespace {

void add_work(LaunchedWork& launched, std::span<const Actor> actors, double share) {
  launched.kernel = actors.front().work.kernel;
  launched.launches += share;
  launched.operators += share * static_cast<double>(actors.size());
  for (const Actor& actor : actors) {
    launched.flops += share * actor.work.flops;
    launched.bytes += share * static_cast<double>((actor.work.read + actor.work.written).value);
  }
}

void add_actors(const PhysicalGraph& graph, const CostModel& cost, Rank rank, RunId id,
                double share, PredictedTimes& predicted) {
  const Run& run = graph.program_of(rank).order[id];
  const Block& block = graph.block_of(graph.program_of(rank).instances[run.instance]);
  const std::int32_t end = run.first_actor + run.num_actors;
  for (std::int32_t first = run.first_actor; first < end; ++first) {
    double seconds = 0;
    for (std::int32_t last = first; last < end; ++last) {
      const Actor& actor = block.actors[static_cast<std::size_t>(last)];
      const double one = to_seconds(cost.duration(actor.work)) * share;
      seconds += one;
      if (last == first) predicted.kinds[actor.kind] += one;
      const std::string name = run_name(graph, rank, id, first, last - first + 1);
      add_work(
          predicted.works[name],
          std::span(block.actors)
              .subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(last - first + 1)),
          share);
      if (last - first + 1 < run.num_actors) predicted.operators[name] += seconds;
    }
  }
}

}  // namespace

Timeline timeline_beside(const PlannedJob& planned, const PhysicalGraph& graph,
                         const RunRecord& record) {
  SimulateOptions options;
  options.mode = SimulationMode::kStep;
  options.folded = false;
  // Without an order to compare with, as many as a prediction needs.
  options.steps =
      has_order(record) ? record.steps : std::min<std::int64_t>(record.steps, options.steps);
  return simulate_timeline(graph, *planned.cost, *planned.network, options);
}

PredictedTimes predicted_times(const PhysicalGraph& graph, const CostModel& cost,
                               const Timeline& timeline) {
  PredictedTimes predicted;
  const double share = 1.0 / static_cast<double>(timeline.ranks.size());
  for (const RankTimeline& rank : timeline.ranks) {
    for (const TimedRun& run : rank.runs) {
      const double seconds = to_seconds(run.end - run.begin) * share;
      predicted.operators[run_name(graph, rank.rank, run.run)] += seconds;
      const Run& entry = graph.program_of(rank.rank).order[run.run];
      const Block& block = graph.block_of(graph.program_of(rank.rank).instances[entry.instance]);
      const Actor& first = block.actors[static_cast<std::size_t>(entry.first_actor)];
      if (first.communication)
        predicted.kinds[first.kind] += seconds;
      else
        add_actors(graph, cost, rank.rank, run.run, share, predicted);
    }
  }
  return predicted;
}

PredictedCommunication predicted_communication(const PlannedJob& planned,
                                               const PhysicalGraph& graph,
                                               const Timeline& timeline) {
  const WorkName name = [&](Rank rank, RunId run) { return run_name(graph, rank, run); };
  SimulateOptions options;
  options.mode = SimulationMode::kTimed;
  options.overlap = overlap_shares(planned.job.cluster);
  if (options.overlap.empty())
    return {communication_use(graph, std::span(&timeline, 1), name), "step"};
  const Timeline timed = simulate_timeline(graph, *planned.cost, *planned.network, options);
  return {communication_use(graph, std::span(&timed, 1), name), "timed"};
}

std::vector<OperatorRow> operator_rows(const std::map<std::string, double>& predicted,
                                       const std::map<std::string, double>& measured) {
  std::vector<OperatorRow> rows;
  for (const auto& [name, seconds] : measured) {
    const auto found = predicted.find(name);
    if (found != predicted.end()) rows.push_back({name, found->second, seconds});
  }
  std::stable_sort(rows.begin(), rows.end(), [](const OperatorRow& a, const OperatorRow& b) {
    return a.measured_s > b.measured_s;
  });
  return rows;
}

std::optional<double> slowdown(const DeviceKind& device, const RunRecord& record) {
  if (!record.yardstick_s || *record.yardstick_s <= 0 || device.yardstick.value <= 0)
    return std::nullopt;
  return *record.yardstick_s / device.yardstick.value;
}

double relative_error(double predicted, double measured) { return predicted / measured - 1; }

std::optional<double> median_error(const std::vector<OperatorRow>& rows) {
  std::vector<double> errors;
  for (const OperatorRow& row : rows)
    if (row.measured_s > 0)
      errors.push_back(std::abs(relative_error(row.predicted_s, row.measured_s)));
  if (errors.empty()) return std::nullopt;
  return median(errors);
}

bool has_order(const RunRecord& record) { return !record.issued.empty(); }

}  // namespace sextant
