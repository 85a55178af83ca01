// What the length of a step costs once its plan is cut into blocks, and what the cut costs; the
// tape beside it. Processor time; definitions: METRICS.md.
#include "compiler/expand/expand.h"
#include "compiler/training/training_graph.h"
#include "models/model.h"
#include "simulator/cluster_files/cluster_file.h"
#include "simulator/costs/models.h"
#include "simulator/modes/prepared_blocks.h"
#include "simulator/modes/recurring/block_evaluation.h"
#include "simulator/modes/recurring/block_matrix.h"

#include <benchmark/benchmark.h>
#include <fmt/core.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace sextant::block_bench {
namespace {

struct PlanText {
  std::string model, strategy;
  std::int64_t ranks, micro_batches;
};

const std::vector<PlanText> kPlans = {
    {"gpt3-175b", "dp=16 tp=8 pp=8 micro_batch=1", 1024, 96},
    {"gpt3-175b", "dp=16 tp=8 pp=8 micro_batch=1 schedule=interleaved virtual=6", 1024, 96},
    {"llama2-7b", "dp=2 tp=8 pp=4 micro_batch=1", 64, 32},
    {"llama2-7b", "dp=8 tp=4 pp=2 micro_batch=1", 64, 8}};

struct Plan {
  PhysicalGraph graph;
  std::unique_ptr<CostModel> cost;
  std::unique_ptr<NetworkModel> network;
  std::unique_ptr<PreparedBlocks> prepared;
};

const Plan& plan_of(std::int64_t number) {
  static std::map<std::int64_t, Plan> plans;
  Plan& plan = plans[number];
  if (plan.prepared) return plan;
  const PlanText& text = kPlans[static_cast<std::size_t>(number)];
  const Cluster cluster = load_cluster(fmt::format("dgx-h100:nodes={}", text.ranks / 8));
  plan.cost = make_roofline(cluster, DType::kBF16);
  plan.network = make_network_model(cluster);
  const Strategy strategy = parse_strategy(text.strategy);
  const ModelConfig model = load_model(text.model);
  const LogicalGraph training =
      make_training_graph(build_graph(model, strategy.dp, model.sequence, DType::kBF16), strategy);
  plan.graph =
      compile(training, strategy, strategy.dp * text.micro_batches, *plan.cost, *plan.network);
  plan.prepared = std::make_unique<PreparedBlocks>(plan.graph, *plan.cost, *plan.network);
  return plan;
}

void step_ends(benchmark::State& state) {
  const Plan& plan = plan_of(state.range(0));
  bool fell_back = false;
  for (auto _ : state) fell_back = plan.prepared->step_ends(*plan.cost, *plan.network).fell_back;
  const BlockTape& blocks = plan.prepared->blocks();
  state.counters["fell_back"] = fell_back ? 1 : 0;
  state.counters["blocks"] = static_cast<double>(blocks.instances.size());
  state.counters["kinds"] = static_cast<double>(blocks.num_kinds());
  state.counters["outside"] = static_cast<double>(blocks.loose.size());
}
BENCHMARK(step_ends)
    ->Name("block/step_ends")
    ->DenseRange(0, 3)
    ->ArgName("plan")
    ->MeasureProcessCPUTime()
    ->Unit(benchmark::kMillisecond);

enum Part { kCut, kDurations, kMatrices, kEvaluate, kTape };

void part(benchmark::State& state) {
  const Plan& plan = plan_of(state.range(0));
  const BlockTape& blocks = plan.prepared->blocks();
  const FlatTape& flat = *blocks.flat;
  const auto durations = block_durations(blocks, plan.graph, *plan.cost, *plan.network);
  const std::vector<std::int32_t> colours(flat.tape->ranks.size());
  const auto run = [&] {
    switch (static_cast<Part>(state.range(1))) {
      case kCut:
        benchmark::DoNotOptimize(BlockTape(flat, plan.graph, colours, blocks.window));
        break;
      case kDurations:
        benchmark::DoNotOptimize(block_durations(blocks, plan.graph, *plan.cost, *plan.network));
        break;
      case kMatrices:
        benchmark::DoNotOptimize(block_matrices(blocks, durations, plan.cost->launch_cost()));
        break;
      case kEvaluate:
        benchmark::DoNotOptimize(evaluate_blocks(blocks, durations, plan.cost->launch_cost(), 4));
        break;
      case kTape: {
        TapeOptions options;
        options.steps = 4;
        benchmark::DoNotOptimize(evaluate(flat, entry_durations(*flat.tape, plan.graph, *plan.cost),
                                          *plan.cost, *plan.network, options));
        break;
      }
    }
  };
  for (auto _ : state) run();
}
BENCHMARK(part)
    ->Name("block/part")
    ->ArgsProduct({{0, 1, 2, 3}, {kCut, kDurations, kMatrices, kEvaluate, kTape}})
    ->ArgNames({"plan", "part"})
    ->MeasureProcessCPUTime()
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace sextant::block_bench
