// What simulating a compiled plan costs on one core, part by part. Definitions: METRICS.md.
#include "simulator/simulate.h"

#include "actor/dry_run.h"
#include "actor/rank_classes.h"
#include "actor/tape.h"
#include "compiler/expand.h"
#include "compiler/training_graph.h"
#include "models/model.h"
#include "simulator/cluster_file.h"
#include "simulator/group_colours.h"
#include "simulator/models.h"

#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <map>
#include <memory>
#include <string>

namespace {

using namespace sextant;

struct Plan {
  PhysicalGraph graph;
  std::unique_ptr<CostModel> cost;
  std::unique_ptr<NetworkModel> network;
};

const Plan& gpt3(std::int64_t ranks, bool interleaved) {
  static std::map<std::pair<std::int64_t, bool>, Plan> plans;
  Plan& plan = plans[{ranks, interleaved}];
  if (!plan.graph.ranks.empty()) return plan;
  const Cluster cluster = load_cluster(fmt::format("dgx-h100:nodes={}", ranks / 8));
  plan.cost = make_roofline(cluster, DType::kBF16);
  plan.network = make_alpha_beta(cluster);
  const Strategy strategy =
      parse_strategy(fmt::format("dp={} tp=8 pp=8 micro_batch=1{}", ranks / 64,
                                 interleaved ? " schedule=interleaved virtual=6" : ""));
  const ModelConfig model = load_model("gpt3-175b");
  const LogicalGraph training =
      make_training_graph(build_graph(model, strategy.dp, model.sequence, DType::kBF16), strategy);
  plan.graph = compile(training, strategy, strategy.dp * 96, *plan.cost, *plan.network);
  return plan;
}

void simulate_plan(benchmark::State& state) {
  const Plan& plan = gpt3(state.range(0), state.range(1) != 0);
  std::int64_t events = 0;
  for (auto _ : state) {
    const Simulation result = simulate(plan.graph, *plan.cost, *plan.network);
    events = result.events;
  }
  state.counters["events"] = static_cast<double>(events);
}
BENCHMARK(simulate_plan)
    ->Args({1024, 0})
    ->Args({16384, 0})
    ->Args({1024, 1})
    ->Args({16384, 1})
    ->Unit(benchmark::kMillisecond);

void parts(benchmark::State& state) {
  const Plan& plan = gpt3(state.range(0), state.range(1) != 0);
  const GroupMembers members(plan.graph);
  const auto colours = group_colours(plan.graph, members, *plan.network);
  const RankClasses classes = rank_classes(plan.graph, members, {}, colours);
  GraphTables tables(plan.graph);
  const DryRun dry = dry_run(plan.graph, members, classes, tables);
  const Tape tape = record(plan.graph, members, classes, dry, tables);
  const auto durations = entry_durations(tape, plan.graph, *plan.cost);
  for (auto _ : state) {
    switch (state.range(2)) {
      case 0:
        benchmark::DoNotOptimize(GroupMembers(plan.graph));
        break;
      case 1:
        benchmark::DoNotOptimize(group_colours(plan.graph, members, *plan.network));
        break;
      case 2:
        benchmark::DoNotOptimize(rank_classes(plan.graph, members, {}, colours));
        break;
      case 3: {
        GraphTables t(plan.graph);
        benchmark::DoNotOptimize(dry_run(plan.graph, members, classes, t));
        break;
      }
      case 4:
        benchmark::DoNotOptimize(record(plan.graph, members, classes, dry, tables));
        break;
      case 5:
        benchmark::DoNotOptimize(entry_durations(tape, plan.graph, *plan.cost));
        break;
      case 6:
        benchmark::DoNotOptimize(evaluate(tape, plan.graph, durations, *plan.cost, *plan.network));
        break;
    }
  }
  state.counters["entries"] = static_cast<double>(tape.entries.size());
  state.counters["ranks"] = static_cast<double>(tape.ranks.size());
  state.counters["meetings"] = static_cast<double>(tape.meetings.size());
  state.counters["calls"] = static_cast<double>(tape.calls.size());
  state.counters["waits"] = static_cast<double>(tape.waits.size());
}
BENCHMARK(parts)
    ->ArgsProduct({{1024, 16384}, {0, 1}, {0, 1, 2, 3, 4, 5, 6}})
    ->Unit(benchmark::kMillisecond);

}  // namespace

BENCHMARK_MAIN();
