// Blocks proven on compiled plans and on random pipelines: each step ends at the picosecond at
// which the tape has it end, whatever the window is, and where blocks cannot know, they say so.
#include "actor/protocol/proven_graph.h"
#include "actor/protocol/rank_classes.h"
#include "actor/tapes/flat_tape.h"
#include "core/base/counter_rng.h"
#include "core/base/error.h"
#include "simulator/cluster_files/cluster_file.h"
#include "simulator/costs/ranked_costs.h"
#include "simulator/modes/group_colours.h"
#include "simulator/modes/prepared_blocks.h"
#include "simulator/modes/recurring/block_evaluation.h"
#include "tests/simulator/compiled_plans.h"
#include "tests/simulator/toy_graph.h"
#include "tests/simulator/toy_pipeline.h"

#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <vector>

namespace sextant::block_mode_test {
namespace {

std::uint32_t draw(std::uint32_t seed, std::uint32_t number) {
  return philox4x32({number, 0, 0, 0}, {seed, 7})[0];
}

// Each kind of work at random: from far below a launch to far above.
class RandomCost : public CostModel {
 public:
  RandomCost(std::uint32_t seed, std::int64_t launch_cost)
      : seed_(seed), launch_cost_(launch_cost) {}
  Duration duration(const Work& work) const override {
    const auto flops = static_cast<std::uint64_t>(work.flops);
    const auto bytes = static_cast<std::uint64_t>(work.read.value + work.written.value);
    const PhiloxBlock bits =
        philox4x32({static_cast<std::uint32_t>(flops), static_cast<std::uint32_t>(flops >> 32),
                    static_cast<std::uint32_t>(bytes), static_cast<std::uint32_t>(bytes >> 32)},
                   {seed_, 0});
    return Duration(static_cast<std::int64_t>(bits[0] % (1U << (8 + bits[1] % 20))));
  }
  Duration launch_cost() const override { return Duration(launch_cost_); }

 private:
  std::uint32_t seed_;
  std::int64_t launch_cost_;
};

struct Counts {
  std::int64_t compared = 0, by_blocks = 0;
};

// One tape of a graph, cut for one window after the other.
class Checker {
 public:
  Checker(const PhysicalGraph& graph, const NetworkModel& network)
      : graph_(graph),
        network_(network),
        tape_(record(ProvenGraph(graph),
                     rank_classes(graph, GroupMembers(graph), {},
                                  group_colours(graph, GroupMembers(graph), network)))),
        flat_(tape_) {}

  void cut(std::int64_t window) {
    const std::vector<std::int32_t> colours(tape_.ranks.size());
    blocks_ = std::make_unique<BlockTape>(flat_, graph_, colours, window);
  }

  void check(const CostModel& cost, Counts& counts) const {
    TapeOptions options;
    options.steps = 6;
    options.window = blocks_->window;
    const auto ends = evaluate_blocks(*blocks_, block_durations(*blocks_, graph_, cost, network_),
                                      cost.launch_cost(), options.steps);
    ++counts.compared;
    if (!ends) return;
    ++counts.by_blocks;
    CHECK(*ends ==
          evaluate(flat_, entry_durations(tape_, graph_, cost), cost, network_, options).step_end);
  }

 private:
  const PhysicalGraph& graph_;
  const NetworkModel& network_;
  Tape tape_;
  FlatTape flat_;
  std::unique_ptr<BlockTape> blocks_;
};

TEST_CASE("steps of compiled plans end in block mode when they end in tape mode") {
  const Cluster cluster = load_cluster("dgx-h100:nodes=8");
  const CheapLaunches device(cluster);
  const auto network = make_network_model(cluster);
  Counts product, tiny, all;
  for (const PlanCase& one : plan_cases()) {
    CAPTURE(one.strategy);
    const PhysicalGraph graph = compiled(one, device, *network);
    Checker checker(graph, *network);
    for (const std::int64_t window : {1, 2, 5, 17, 64, 256, 100'000}) {
      CAPTURE(window);
      checker.cut(window);
      Counts& counts = window < 64 ? tiny : all;
      checker.check(device, window == 256 ? product : counts);
      for (const std::int64_t launch_cost : {0, 1'000, 100'000, 20'000'000, 1'000'000'000})
        for (std::uint32_t seed = 0; seed < 3; ++seed)
          checker.check(RandomCost(seed, launch_cost), counts);
    }
  }
  CHECK(product.by_blocks == product.compared);
  CHECK(all.by_blocks > all.compared * 3 / 4);
  // Where a queue holds few launches the window decides, and blocks leave it to the tape.
  CHECK(tiny.by_blocks > tiny.compared / 10);
  CHECK(tiny.by_blocks < tiny.compared);
}

TEST_CASE("steps of plans with other numbers of micro-batches end in block mode as on the tape") {
  const Cluster cluster = load_cluster("dgx-h100:nodes=8");
  const CheapLaunches device(cluster);
  const auto network = make_network_model(cluster);
  Counts counts;
  for (const char* schedule : {"1f1b", "gpipe", "interleaved virtual=2", "zb-h1", "zb-v"})
    for (const int micro_batches : {4, 8, 20}) {
      const PlanCase one{std::string("dp=1 tp=2 pp=4 micro_batch=1 schedule=") + schedule};
      CAPTURE(one.strategy);
      CAPTURE(micro_batches);
      const PhysicalGraph graph = compiled(one, device, *network, micro_batches);
      Checker checker(graph, *network);
      for (const std::int64_t window : {40, 120, 256}) {
        checker.cut(window);
        checker.check(device, counts);
        for (std::uint32_t seed = 0; seed < 6; ++seed)
          checker.check(RandomCost(seed, draw(seed, 1) % 4'000'000), counts);
      }
    }
  CHECK(counts.by_blocks > counts.compared / 2);
}

ToyPipeline random_pipeline(std::uint32_t seed) {
  ToyPipeline pipeline;
  const std::uint32_t stages = 1 + draw(seed, 0) % 5;
  for (std::uint32_t stage = 0; stage < stages; ++stage) {
    pipeline.forward.push_back(1 + draw(seed, 10 + stage) % 50);
    pipeline.backward.push_back(1 + draw(seed, 20 + stage) % 90);
  }
  pipeline.micro_batches = static_cast<std::int32_t>(1 + draw(seed, 1) % 30);
  pipeline.replicas = static_cast<std::int32_t>(1 + draw(seed, 2) % 3);
  pipeline.schedule = draw(seed, 3) % 2 == 0 ? ToySchedule::kGPipe : ToySchedule::kOneFOneB;
  pipeline.optimizer = draw(seed, 4) % 100;
  pipeline.gradient_bytes = draw(seed, 5) % 200;
  pipeline.launch_groups = draw(seed, 6) % 2 == 0;
  // GPipe holds all micro-batches; a launch group may need what it frees itself.
  if (!pipeline.launch_groups && pipeline.schedule == ToySchedule::kOneFOneB)
    pipeline.activation_registers =
        static_cast<std::int32_t>(draw(seed, 7) % 2) * static_cast<std::int32_t>(stages);
  return pipeline;
}

SimulateOptions random_options(std::uint32_t seed) {
  SimulateOptions options;
  options.mode = SimulationMode::kBlock;
  options.folded = draw(seed, 8) % 3 != 0;
  options.steps = draw(seed, 35) % 5 == 0 ? 40 : 1 + draw(seed, 9) % 8;
  options.window = 1 + draw(seed, 30) % (draw(seed, 31) % 2 == 0 ? 8 : 200);
  return options;
}

TEST_CASE("random pipelines have in block mode the times of the tape, launch groups included") {
  Counts counts;
  for (std::uint32_t seed = 0; seed < 400; ++seed) {
    CAPTURE(seed);
    const PhysicalGraph graph = make_toy_pipeline(random_pipeline(seed));
    const ToyCost cost(draw(seed, 32) % 3 == 0 ? 0 : draw(seed, 33) % 20);
    const ToyNetwork network(draw(seed, 34) % 30);
    SimulateOptions options = random_options(seed);
    const Timeline blocks = simulate_timeline(graph, cost, network, options);
    options.mode = SimulationMode::kTape;
    CHECK(blocks.step_end == simulate_timeline(graph, cost, network, options).step_end);
    ++counts.compared;
    REQUIRE(blocks.blocks.has_value());
    counts.by_blocks += blocks.blocks->fell_back ? 0 : 1;
  }
  CHECK(counts.by_blocks > counts.compared / 4);
  CHECK(counts.by_blocks < counts.compared);
}

TEST_CASE("one cut serves other kernels, other links and any number of steps") {
  const Cluster cluster = load_cluster("dgx-h100:nodes=8");
  const CheapLaunches device(cluster);
  const auto network = make_network_model(cluster), other = make_alpha_beta(cluster);
  const PhysicalGraph graph = compiled({"dp=2 tp=4 pp=4 micro_batch=1"}, device, *network);
  const PreparedBlocks prepared(graph, device, *network);
  for (const NetworkModel* links : {network.get(), other.get()})
    for (std::uint32_t seed = 0; seed < 4; ++seed)
      for (const std::int64_t steps : {1, 2, 9}) {
        SimulateOptions options;
        options.steps = steps;
        const RandomCost cost(seed, 2'000);
        const PreparedBlocks::StepEnds ends = prepared.step_ends(cost, *links, steps);
        CHECK_FALSE(ends.fell_back);
        CHECK(ends.step_end == simulate_timeline(graph, cost, *links, options).step_end);
      }
}

TEST_CASE("with stragglers, blocks of slow ranks are their own") {
  const Cluster cluster = load_cluster("dgx-h100:nodes=2");
  const auto network = make_network_model(cluster);
  const auto alike = make_roofline(cluster, DType::kBF16);
  const std::vector<Straggler> stragglers = {{Rank(1), 1.3}, {Rank(6), 1.1}};
  const auto slow = make_ranked_costs(cluster, DType::kBF16, stragglers);
  const PlanCase one{"dp=2 tp=2 pp=2 micro_batch=1"};
  const PhysicalGraph graph = compiled(one, *alike, *network, 16);
  SimulateOptions options;
  options.mode = SimulationMode::kBlock;
  const Timeline blocks = simulate_timeline(graph, *slow, *network, options);
  options.mode = SimulationMode::kTape;
  CHECK(blocks.step_end == simulate_timeline(graph, *slow, *network, options).step_end);
  REQUIRE(blocks.blocks.has_value());
  CHECK_FALSE(blocks.blocks->fell_back);
  CHECK(blocks.step_end != simulate_timeline(graph, *alike, *network, options).step_end);
  const PreparedBlocks prepared(graph, *alike, *network);
  CHECK_THROWS_WITH_AS(prepared.step_ends(*slow, *network), doctest::Contains("other ranks apart"),
                       Error);
}

// What is seen once is evaluated launch by launch: no kind is counted that no block is of.
TEST_CASE("there are at most as many kinds of blocks as blocks") {
  const Cluster cluster = load_cluster("dgx-h100:nodes=8");
  const CheapLaunches device(cluster);
  const auto network = make_network_model(cluster);
  std::size_t seen_once = 0;
  for (const PlanCase& one : plan_cases()) {
    CAPTURE(one.strategy);
    const PhysicalGraph graph = compiled(one, device, *network);
    const PreparedBlocks prepared(graph, device, *network);
    const BlockTape& blocks = prepared.blocks();
    CHECK(blocks.num_kinds() <= static_cast<std::int64_t>(blocks.instances.size()));
    seen_once += blocks.templates.size() - static_cast<std::size_t>(blocks.num_kinds());
  }
  CHECK(seen_once > 0);
}

TEST_CASE("a plan of many micro-batches is mostly blocks, of few kinds") {
  const Cluster cluster = load_cluster("dgx-h100:nodes=8");
  const CheapLaunches device(cluster);
  const auto network = make_network_model(cluster);
  const PlanCase one{"dp=1 tp=2 pp=4 micro_batch=1"};
  const PhysicalGraph graph = compiled(one, device, *network, 24);
  SimulateOptions options;
  options.mode = SimulationMode::kBlock;
  const Simulation simulation = simulate(graph, device, *network, options);
  REQUIRE(simulation.blocks.has_value());
  CHECK_FALSE(simulation.blocks->fell_back);
  CHECK(simulation.blocks->instances >= 4 * 24);
  CHECK(simulation.blocks->kinds * 3 < simulation.blocks->instances);
  CHECK(simulation.blocks->launches_outside * options.steps * 3 < simulation.events);
}

TEST_CASE("block mode refuses what it cannot be exact for") {
  const Cluster cluster = load_cluster("dgx-h100:nodes=1");
  const auto alike = make_alpha_beta(cluster), ring = make_ring_recurrence(cluster);
  const CheapLaunches device(cluster);
  const PhysicalGraph graph = compiled({"dp=1 tp=4 pp=1 micro_batch=1"}, device, *alike);
  SimulateOptions options;
  options.mode = SimulationMode::kBlock;
  CHECK_THROWS_WITH_AS(simulate(graph, device, *ring, options),
                       doctest::Contains("complete together"), Error);
  options.jitter = 0.1;
  CHECK_THROWS_WITH_AS(simulate(graph, device, *alike, options), doctest::Contains("jitter"),
                       Error);
  const PreparedBlocks prepared(graph, device, *alike);
  options.jitter = 0;
  options.window = 3;
  CHECK_THROWS_WITH_AS(prepared.timeline(device, *alike, options), doctest::Contains("cut for 256"),
                       Error);
}

}  // namespace
}  // namespace sextant::block_mode_test
