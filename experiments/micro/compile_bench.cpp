// What compiling costs: a model in which nothing repeats on one rank, and GPT-3 175B on thousands.
// Definitions: METRICS.md.
#include "compiler/expand/expand.h"
#include "compiler/training/training_graph.h"
#include "experiments/micro/irregular_model.h"
#include "models/model.h"
#include "simulator/cluster_files/cluster_file.h"
#include "simulator/costs/models.h"

#include <benchmark/benchmark.h>
#include <fmt/core.h>

#include <memory>
#include <string>

namespace sextant::compile_bench {
namespace {

std::int64_t actors_of(const PhysicalGraph& graph) {
  std::int64_t actors = 0;
  for (const RankProgram& program : graph.programs)
    for (const Instance& instance : program.instances)
      actors += static_cast<std::int64_t>(graph.block_of(instance).actors.size());
  return actors;
}

void report(benchmark::State& state, const PhysicalGraph& graph) {
  state.counters["actors"] = static_cast<double>(actors_of(graph));
  state.counters["ranks"] = static_cast<double>(graph.ranks.size());
}

// From the forward graph to the checked physical graph, autodiff included.
void irregular_operators(benchmark::State& state) {
  const LogicalGraph forward = irregular_model(state.range(0), 1);
  const Cluster cluster = load_cluster("dgx-h100:nodes=1");
  const auto cost = make_roofline(cluster, DType::kF32);
  const auto network = make_alpha_beta(cluster);
  const Strategy strategy = parse_strategy("dp=1 micro_batch=8");
  for (auto _ : state) {
    const PhysicalGraph graph =
        compile(make_training_graph(forward, strategy), strategy, 8, *cost, *network);
    report(state, graph);
  }
}
BENCHMARK(irregular_operators)
    ->Name("compile/irregular_operators")
    ->Arg(7600)
    ->Arg(76000)
    ->Unit(benchmark::kMillisecond);

// From the model's name to the checked physical graph: all classes of ranks.
void gpt3(benchmark::State& state) {
  const std::int64_t ranks = state.range(0);
  const Cluster cluster = load_cluster(fmt::format("dgx-h100:nodes={}", ranks / 8));
  const auto cost = make_roofline(cluster, DType::kBF16);
  const auto network = make_alpha_beta(cluster);
  const Strategy strategy =
      parse_strategy(fmt::format("dp={} tp=8 pp=8 micro_batch=1", ranks / 64));
  const std::int64_t global_batch = strategy.dp * 96;
  for (auto _ : state) {
    const ModelConfig model = load_model("gpt3-175b");
    const LogicalGraph training = make_training_graph(
        build_graph(model, strategy.dp * strategy.micro_batch, model.sequence, DType::kBF16),
        strategy);
    const PhysicalGraph graph = compile(training, strategy, global_batch, *cost, *network);
    report(state, graph);
  }
}
BENCHMARK(gpt3)->Name("compile/gpt3")->Arg(1024)->Arg(16384)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace sextant::compile_bench
