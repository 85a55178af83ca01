// Joined runs on small models whose kernels and network are timed by chance: what joins, and that
// it changes no order and costs no time.
#include "compiler/order/join_runs.h"

#include "compiler/expand/expand.h"
#include "compiler/training/training_graph.h"
#include "tests/compiler/step_times.h"
#include "tests/compiler/toy_models.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <tuple>
#include <vector>

namespace sextant::join_runs_test {
using namespace testing;

namespace {

// A part of the bytes and operations, so that kernels differ.
class PartCost : public CostModel {
 public:
  explicit PartCost(std::int64_t part, std::int64_t launch = 0) : part_(part), launch_(launch) {}
  Duration duration(const Work& work) const override {
    const std::int64_t all =
        static_cast<std::int64_t>(work.flops) + work.read.value * 3 + work.written.value * 5;
    return Duration(1 + all / part_);
  }
  Duration launch_cost() const override { return Duration(launch_); }

 private:
  std::int64_t part_, launch_;
};

// ZeRO divides its matrices and its table; it leaves small tensors whole.
constexpr ToyGpt kSharded{.hidden = 32, .vocab = 40, .ffn = 64, .compute = DType::kBF16};
constexpr ToyGpt kShardedF32{.hidden = 32, .vocab = 40, .ffn = 64};

struct Case {
  std::string strategy;
  ToyGpt model = {.compute = DType::kBF16};
  std::int64_t global_batch = 16;
};

PhysicalGraph compiled(const Case& a_case, const CostModel& cost, const NetworkModel& network,
                       bool join, BucketLimits buckets = {}, bool plan_memory = true) {
  const Strategy strategy = parse_strategy(a_case.strategy);
  ToyGpt model = a_case.model;
  model.batch = strategy.dp * strategy.micro_batch;
  ExpandOptions options;
  options.join_runs = join;
  options.buckets = buckets;
  options.plan_memory = plan_memory;
  return compile(make_training_graph(toy_gpt(model), strategy), strategy, a_case.global_batch, cost,
                 network, options);
}

bool computes(const PhysicalGraph& graph, const RankProgram& program, const Run& run) {
  return graph.block_of(program.instances[run.instance])
             .actors[static_cast<std::size_t>(run.first_actor)]
             .queue == QueueRole::kCompute;
}

std::map<std::string, int> runs_by_instance(const PhysicalGraph& graph) {
  std::map<std::string, int> runs;
  const RankProgram& program = graph.programs[ProgramId(0)];
  for (const Run& run : program.order)
    if (computes(graph, program, run)) ++runs[program.instances[run.instance].name];
  return runs;
}

// Actors in the order of each queue, with their acts.
using Issued = std::tuple<std::int32_t, std::int32_t, std::int32_t>;
std::vector<std::array<std::vector<Issued>, kNumQueueRoles>> issued(const PhysicalGraph& graph) {
  std::vector<std::array<std::vector<Issued>, kNumQueueRoles>> all;
  for (const RankProgram& program : graph.programs) {
    auto& queues = all.emplace_back();
    for (const Run& run : program.order)
      for (std::int32_t a = run.first_actor; a < run.first_actor + run.num_actors; ++a) {
        const Actor& actor =
            graph.block_of(program.instances[run.instance]).actors[static_cast<std::size_t>(a)];
        queues[static_cast<std::size_t>(actor.queue)].emplace_back(run.instance.value, a, run.act);
      }
  }
  return all;
}

std::size_t num_runs(const PhysicalGraph& graph) {
  std::size_t count = 0;
  for (const RankProgram& program : graph.programs) count += program.order.size();
  return count;
}

TEST_CASE("updates whose reductions are over are one run, those that would wait are not") {
  const Case a_case{"dp=2"};
  // A reduction takes a few picoseconds, a layer's backward thousands: when the first update comes
  // only the embedding's reductions may be under way.
  const PartCost cost(1);
  const auto joined = runs_by_instance(compiled(a_case, cost, LineNetwork(1, 0), true));
  CHECK(joined.at("layer2.optimizer") == 1);
  CHECK(joined.at("layer1.optimizer") == 1);
  const auto apart = runs_by_instance(compiled(a_case, cost, LineNetwork(1, 0), false));
  CHECK(apart.at("layer2.optimizer") == 16);  // two norms, q, k, v, out, up and down with biases
  // Reductions of a millisecond, one by one. The first two updates are of the norm whose gradients
  // come last: the second waits a millisecond longer, and the others then have all they need.
  const BucketLimits no_buckets{.bytes = Bytes(0), .operations = 0};
  const LineNetwork slow(1'000'000'000, 0);
  CHECK(runs_by_instance(compiled(a_case, cost, slow, true, no_buckets)).at("layer2.optimizer") ==
        2);
  // Those of one bucket are over together.
  CHECK(runs_by_instance(compiled(a_case, cost, slow, true)).at("layer2.optimizer") == 1);
}

TEST_CASE(
    "casts are one run where their gathers start together, and several where each is waited for") {
  const Case a_case{"dp=2 zero=1", kSharded};
  const PartCost cost(1);
  const LineNetwork slow(1'000'000'000, 0);
  const auto in_buckets = runs_by_instance(compiled(a_case, cost, slow, true));
  const BucketLimits no_buckets{.bytes = Bytes(0), .operations = 0};
  const auto alone = runs_by_instance(compiled(a_case, cost, LineNetwork(1, 0), true, no_buckets));
  CHECK(in_buckets.at("layer1.parameters") < 4);
  // Six matrices, each with its gather behind it and vectors before it, and the last vector.
  CHECK(alone.at("layer1.parameters") == 7);
}

TEST_CASE("joined plans are sound, keep the order of every queue and are no slower") {
  const std::vector<Case> cases{
      {"dp=2"},
      {"dp=2 zero=1", kSharded},
      {"dp=2 zero=1", kShardedF32},
      {"dp=4 zero=2", kSharded},
      {"dp=2 zero=3", kSharded},
      {"dp=2 tp=2"},
      {"dp=2 tp=2 zero=1", {.compute = DType::kF32, .tied = false}},
      {"dp=2 pp=2 zero=1", kSharded},
      {"dp=2 pp=2 schedule=zb-h1"},
      {"dp=2 pp=2 schedule=zb-v virtual=2 zero=1", {.layers = 4, .compute = DType::kBF16}},
      {"dp=2 pp=2 schedule=interleaved virtual=2", {.layers = 4, .compute = DType::kF32}},
  };
  std::size_t num_joined = 0, num_apart = 0;
  for (std::size_t number = 0; number < cases.size() * 6; ++number) {
    const Case& a_case = cases[number % cases.size()];
    CAPTURE(a_case.strategy);
    CAPTURE(number);
    const auto draw = static_cast<std::int64_t>(number / cases.size());
    const PartCost cost(1 + draw * 7, draw % 3);
    const LineNetwork network(std::int64_t{1} << (draw * 3), draw % 2);
    // What compiles is proven to run, in any timing, with its bytes in order.
    const PhysicalGraph joined = compiled(a_case, cost, network, true);
    const PhysicalGraph apart = compiled(a_case, cost, network, false);
    CHECK(issued(joined) == issued(apart));
    // Who waits for whose bytes is the packing's matter: here nobody does.
    const auto time_of = [&](bool join) {
      return step_end(compiled(a_case, cost, network, join, {}, false), cost, network).value;
    };
    CHECK(time_of(true) <= time_of(false));
    num_joined += num_runs(joined);
    num_apart += num_runs(apart);
  }
  CHECK(num_joined < num_apart);
}

}  // namespace
}  // namespace sextant::join_runs_test
