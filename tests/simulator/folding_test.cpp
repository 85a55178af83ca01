// Folding proven on compiled plans: every launch of every rank has, to the picosecond, the times of
// the rank that stands for it; and tape mode those of the stepped actors.
#include "actor/protocol/program_waits.h"
#include "actor/protocol/rank_classes.h"
#include "actor/tapes/tape.h"
#include "core/base/error.h"
#include "simulator/cluster_files/cluster_file.h"
#include "simulator/costs/models.h"
#include "simulator/modes/group_colours.h"
#include "simulator/modes/simulate.h"
#include "tests/simulator/compiled_plans.h"
#include "tests/support/recorded_step.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <memory>
#include <vector>

namespace sextant::folding_test {
namespace {

// Each rank so many times as slow as another cost model says.
class PacedCost : public CostModel {
 public:
  PacedCost(const CostModel& base, std::vector<std::int32_t> factors)
      : base_(base), factors_(std::move(factors)) {}
  Duration duration(const Work& work) const override { return base_.duration(work); }
  Duration duration_on(Rank rank, const Work& work) const override {
    return base_.duration(work) * factors_[rank.index()];
  }
  std::int32_t colour_of(Rank rank) const override { return factors_[rank.index()]; }
  Duration launch_cost() const override { return base_.launch_cost(); }
  bool fuses(std::string_view kind) const override { return base_.fuses(kind); }

 private:
  const CostModel& base_;
  std::vector<std::int32_t> factors_;
};

std::vector<std::int32_t> colours_of(const PhysicalGraph& graph, const CostModel& cost) {
  std::vector<std::int32_t> colours;
  for (const Rank rank : graph.ranks.keys()) colours.push_back(cost.colour_of(rank));
  return colours;
}

TapeTimes times_of(const Tape& tape, const PhysicalGraph& graph, const CostModel& cost,
                   const NetworkModel& network) {
  TapeOptions options;
  options.steps = 5;
  options.window = 24;
  return evaluate(tape, graph, entry_durations(tape, graph, cost), cost, network, options);
}

// Returns the number of classes.
std::size_t check_folded(const PhysicalGraph& graph, const CostModel& cost,
                         const NetworkModel& network) {
  const GroupMembers members(graph);
  const RankClasses classes =
      rank_classes(graph, members, colours_of(graph, cost), group_colours(graph, members, network),
                   network.completes_together() ? MemberOrder::kAlike : MemberOrder::kDistinct);
  const Tape folded = record(ProvenGraph(graph), classes);
  const Tape all = testing::record_all_ranks(graph);
  const TapeTimes few = times_of(folded, graph, cost, network);
  const TapeTimes many = times_of(all, graph, cost, network);
  CHECK(few.step_end == many.step_end);
  std::vector<std::vector<std::size_t>> entry_of(classes.size());
  for (std::size_t e = 0; e < folded.entries.size(); ++e) {
    std::vector<std::size_t>& of_place =
        entry_of[static_cast<std::size_t>(folded.entries[e].place)];
    of_place.resize(std::max(of_place.size(), folded.entries[e].run.index() + 1));
    of_place[folded.entries[e].run.index()] = e;
  }
  std::size_t different = 0;
  for (std::size_t e = 0; e < all.entries.size(); ++e) {
    const TapeEntry& entry = all.entries[e];
    const auto rank_class = static_cast<std::size_t>(classes.class_of[entry.rank.index()]);
    const std::size_t f = entry_of[rank_class][entry.run.index()];
    different += many.begin[e] == few.begin[f] && many.end[e] == few.end[f] &&
                         many.issued[e] == few.issued[f]
                     ? 0
                     : 1;
  }
  CHECK(different == 0);
  return classes.size();
}

// All times of the last step, by rank and run.
std::vector<Time> by_run(Timeline timeline) {
  std::vector<Time> times;
  for (RankTimeline& rank : timeline.ranks) {
    std::sort(rank.runs.begin(), rank.runs.end(),
              [](const TimedRun& a, const TimedRun& b) { return a.run < b.run; });
    for (const TimedRun& run : rank.runs)
      times.insert(times.end(), {run.issued, run.arrived, run.begin, run.end});
  }
  return times;
}

void check_step_equals_tape(const PhysicalGraph& graph, const CostModel& cost,
                            const NetworkModel& network, double jitter) {
  SimulateOptions tape, step;
  tape.window = step.window = 24;
  tape.jitter = step.jitter = jitter;
  step.mode = SimulationMode::kStep;
  const std::vector<Time> times = by_run(simulate_timeline(graph, cost, network, step));
  CHECK(by_run(simulate_timeline(graph, cost, network, tape)) == times);
  // Also from a dry run that is there, whose classes may be others.
  const ProvenGraph proven(graph);
  CHECK(by_run(simulate_timeline(proven, cost, network, tape)) == times);
  CHECK(by_run(simulate_timeline(proven, cost, network, tape)) == times);
}

TEST_CASE(
    "folded compiled plans have the times of all their ranks, stragglers and rings included") {
  const Cluster cluster = load_cluster("dgx-h100:nodes=8");
  const CheapLaunches device(cluster);
  const auto alike = make_alpha_beta(cluster), product = make_network_model(cluster),
             ring = make_ring_recurrence(cluster);
  std::size_t folds = 0;
  for (const PlanCase& one : plan_cases()) {
    CAPTURE(one.strategy);
    const PhysicalGraph graph = compiled(one, device, *alike);
    const std::size_t ranks = graph.ranks.size();
    std::vector<std::int32_t> straggler(ranks, 1), kinds(ranks, 1);
    straggler[ranks / 3] = 3;
    for (std::size_t rank = ranks / 2; rank < ranks; ++rank) kinds[rank] = 2;
    for (const std::vector<std::int32_t>& factors : {std::vector(ranks, 1), straggler, kinds}) {
      const PacedCost cost(device, factors);
      const std::size_t classes = check_folded(graph, cost, *alike);
      folds += classes < ranks ? 1 : 0;
      check_folded(graph, cost, *product);
      check_folded(graph, cost, *ring);
    }
    check_step_equals_tape(graph, PacedCost(device, std::vector(ranks, 1)), *alike, 0.0);
    check_step_equals_tape(graph, PacedCost(device, straggler), *product, 0.0);
    check_step_equals_tape(graph, PacedCost(device, kinds), *alike, 0.1);
    for (const ProgramId p : graph.programs.keys()) {
      const ProgramTables tables(graph, p);
      const std::optional<ProgramWaits> direct = direct_waits(tables);
      REQUIRE(direct.has_value());
      CHECK(*direct == stepped_waits(tables));
    }
  }
  CHECK(folds > 20);
}

}  // namespace
}  // namespace sextant::folding_test
