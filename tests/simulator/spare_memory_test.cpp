// Spare memory against the tape: with room enough no guard delays a step, without it the plan is
// the tight one, and what is spent changes no value that a plan promises.
#include "compiler/memory/spare_memory.h"

#include "actor/bytes/byte_order.h"
#include "actor/protocol/dry_run.h"
#include "actor/protocol/graph_tables.h"
#include "actor/protocol/program_tables.h"
#include "actor/protocol/program_waits.h"
#include "compiler/expand/expand.h"
#include "compiler/training/training_graph.h"
#include "models/model.h"
#include "simulator/cluster_files/cluster_file.h"
#include "simulator/modes/simulate.h"
#include "tests/simulator/compiled_plans.h"

#include <doctest/doctest.h>
#include <fmt/core.h>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace sextant::spare_memory_test {
namespace {

constexpr ArenaRoom kPlenty{Bytes(std::int64_t{1} << 50), Bytes()};

// Plans of a machine with fast devices and slow wires, where lives by the issue order are short.
struct Machine {
  Cluster cluster = load_cluster("dgx-h100:nodes=8");
  std::unique_ptr<CostModel> cost = make_roofline(cluster, DType::kBF16);
  std::unique_ptr<NetworkModel> network = make_alpha_beta(cluster);

  ExpandedGraph expanded(const PlanCase& one, const std::optional<ArenaRoom>& room,
                         bool guards = true) const {
    const Strategy strategy = parse_strategy(one.strategy);
    const ModelConfig model = load_model(one.model);
    const std::int64_t micro_batch = strategy.dp * strategy.micro_batch;
    const LogicalGraph training = make_training_graph(
        build_graph(model, micro_batch, model.sequence, DType::kBF16), strategy);
    ExpandOptions options;
    options.room = room;
    options.guards = guards;
    options.checks = guards;
    return compile_and_report(training, strategy, 6 * micro_batch, *cost, *network, options);
  }
  Duration step(const PhysicalGraph& graph) const {
    return simulate(graph, *cost, *network).step_time;
  }
  // As long as no guard delays anything.
  Duration unguarded_step(PhysicalGraph graph) const {
    for (RankProgram& program : graph.programs) program.guards.clear();
    return step(graph);
  }
};

Bytes largest(const PhysicalGraph& graph) {
  Bytes most;
  for (const RankProgram& program : graph.programs) most = std::max(most, program.arena.size);
  return most;
}

// The usual small plans, and those of a model that is large enough for its products to last.
std::vector<PlanCase> cases() {
  std::vector<PlanCase> all = plan_cases();
  const std::string model = "gpt:layers=6,hidden=1024,heads=16,vocab=4096,seq=512";
  for (const char* strategy :
       {"dp=8 micro_batch=2 zero=3", "dp=8 micro_batch=1 zero=3",
        "dp=8 micro_batch=2 zero=2 recompute=3", "dp=4 tp=2 micro_batch=2 zero=3",
        "dp=2 pp=2 cp=2 micro_batch=2 schedule=interleaved virtual=3 zero=1",
        "dp=2 tp=2 pp=2 micro_batch=4 schedule=interleaved virtual=3 zero=2 recompute=full",
        "dp=4 tp=2 micro_batch=4 zero=1 sp=on recompute=full pieces=2"})
    all.push_back({strategy, model});
  return all;
}

// What expansion hands on is what the finished graph says, whether memory was spent or not.
void check_tables(const ExpandedGraph& expanded) {
  for (const ProgramId p : expanded.graph().programs.keys()) {
    const ProgramTables anew(expanded.graph(), p);
    CHECK(*expanded.tables()->of(p) == anew);
    const std::optional<ProgramWaits> waits = direct_waits(anew);
    const ProgramWaits* const handed = expanded.tables()->direct_waits_of(p);
    REQUIRE((handed != nullptr) == waits.has_value());
    CHECK(expanded.tables()->is_direct(p) == waits.has_value());
    if (handed != nullptr) CHECK(*handed == *waits);
  }
  const auto known = expanded.tables()->known_dry_run();
  if (!known) return;
  const DryRun anew = dry_run(expanded.graph());
  CHECK(known->ranks == anew.ranks);
  CHECK(known->meeting_of_run == anew.meeting_of_run);
  CHECK(known->num_meetings == anew.num_meetings);
  REQUIRE(known->order.size() == anew.order.size());
  for (std::size_t i = 0; i < anew.order.size(); ++i) {
    CHECK(known->order[i].rank == anew.order[i].rank);
    CHECK(known->order[i].first == anew.order[i].first);
    CHECK(known->order[i].num_runs == anew.order[i].num_runs);
  }
}

TEST_CASE("where there is room no guard delays the step, and nothing else changes for the worse") {
  const Machine machine;
  int delayed = 0;
  for (const PlanCase& one : cases()) {
    CAPTURE(one.strategy);
    const ExpandedGraph tight = machine.expanded(one, std::nullopt);
    const ExpandedGraph roomy = machine.expanded(one, kPlenty);
    check_tables(tight);
    check_tables(roomy);
    const Duration without = machine.unguarded_step(tight.graph());
    const Duration before = machine.step(tight.graph()), after = machine.step(roomy.graph());
    CHECK(after <= before);
    CHECK(after.value - without.value <= without.value / 1000);
    for (const ProgramId p : roomy.graph().programs.keys()) {
      const ArenaPlan& arena = roomy.graph().programs[p].arena;
      CHECK(roomy.packed()[p.index()].tight == tight.graph().programs[p].arena.size);
      CHECK(arena.lower_bound <= arena.size);
    }
    if (before.value - without.value <= without.value / 2'000) {
      CHECK(roomy.graph() == tight.graph());
      continue;
    }
    ++delayed;
    CHECK(roomy.graph() != tight.graph());
    MESSAGE(fmt::format(
        "{}: guards cost {:.2f} % in {}, {:.2f} % in {}", one.strategy,
        100.0 * (to_seconds(before) / to_seconds(without) - 1), to_text(largest(tight.graph())),
        100.0 * (to_seconds(after) / to_seconds(without) - 1), to_text(largest(roomy.graph()))));
  }
  CHECK(delayed >= 3);  // or nothing was tested
}

TEST_CASE("a plan whose longer lives do not fit stays as tight as it was") {
  const Machine machine;
  const PlanCase one = cases()[plan_cases().size()];
  const ExpandedGraph tight = machine.expanded(one, std::nullopt);
  const ExpandedGraph roomy = machine.expanded(one, kPlenty);
  const Bytes needed = largest(roomy.graph());
  REQUIRE(needed > largest(tight.graph()));
  CHECK(machine.expanded(one, ArenaRoom{needed, Bytes()}).graph() == roomy.graph());
  CHECK(machine.expanded(one, ArenaRoom{Bytes(), Bytes()}).graph() == tight.graph());
  // A better packing may make do with less than `needed`, but not with less than lives at a time.
  const Bytes least = tight.graph().programs[ProgramId(0)].arena.lower_bound - Bytes(1);
  CHECK(machine.expanded(one, ArenaRoom{least, Bytes()}).graph() == tight.graph());
  // Communicators take room as well: every rank of this plan is in one group.
  const Bytes each = needed - least;
  CHECK(machine.expanded(one, ArenaRoom{needed + each, each}).graph() == roomy.graph());
  CHECK(machine.expanded(one, ArenaRoom{needed, each}).graph() == tight.graph());
}

}  // namespace
}  // namespace sextant::spare_memory_test
