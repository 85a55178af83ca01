// Plans in PyTorch's allocator: small ones counted by hand, and what the rules change.
#include "experiments/accuracy/allocator_replay.h"

#include "compiler/expand/expand.h"
#include "compiler/training/training_graph.h"
#include "models/model.h"
#include "simulator/cluster_files/cluster_file.h"
#include "simulator/costs/models.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace sextant::allocator_replay_test {
namespace {

constexpr std::int64_t kMebibyte = std::int64_t{1} << 20;
Bytes mebibytes(std::int64_t count) { return Bytes(count * kMebibyte); }

// A chain of operators of one layer, each reading what the one before it wrote, then an update of
// state of 1 MiB with a moment of 2 MiB.
struct Step {
  std::string name;
  std::int64_t mebibytes = 0;
  Phase phase = Phase::kForward;
};

Register register_of(const std::string& name, std::int64_t mebibytes, int frame) {
  Register reg;
  reg.name = name;
  reg.local = {.shape = {mebibytes * kMebibyte / 4}, .dtype = DType::kF32};
  reg.frame = frame;
  return reg;
}

PhysicalGraph chain(const std::vector<Step>& steps) {
  Block block;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const auto index = static_cast<std::int32_t>(i);
    block.registers.push_back(register_of(steps[i].name, steps[i].mebibytes, index));
    block.frames.push_back({.size = mebibytes(steps[i].mebibytes)});
    Actor actor;
    actor.kind = "matmul";
    actor.name = steps[i].name;
    actor.phase = steps[i].phase;
    actor.out = {index};
    block.actors.push_back(actor);
    if (i > 0) block.edges.push_back({.from_register = index - 1, .to_actor = index});
  }
  const auto state = static_cast<std::int32_t>(steps.size());
  block.frames.push_back(
      {.size = mebibytes(3), .memory = MemoryClass::kOptimizer, .initially_full = true});
  block.registers.push_back(register_of("weight", 1, state));
  block.registers.push_back(register_of("weight.adamw:1", 2, state));
  Actor update;
  update.kind = "adamw";
  update.name = "weight.adamw";
  update.phase = Phase::kOptimizer;
  update.out = {state, state + 1};
  block.actors.push_back(update);
  block.edges.push_back({.from_register = state - 1, .to_actor = state});

  PhysicalGraph graph;
  Instance instance;
  instance.block = BlockId(0);
  instance.layer = 1;
  instance.name = "layer1.forward";
  instance.frames.resize(block.frames.size());
  graph.blocks.push_back(std::move(block));
  RankProgram program;
  program.instances.push_back(instance);
  for (std::int32_t i = 0; i <= state; ++i)
    program.order.push_back({.instance = InstanceId(0), .first_actor = i, .num_actors = 1});
  graph.programs.push_back(program);
  return graph;
}

AllocatorUse replay(const PhysicalGraph& graph, const ReplayRules& rules = {}) {
  return replay_allocator(graph, graph.programs[ProgramId(0)], rules);
}

// Parameter 1 MiB (a small segment of 2). a and b live together: 30 + 20; c takes the place of a
// (30 >= 24), where 6 MiB are left, of which the moment takes 2 when b and c are gone or c lives.
// Most: 1 + 30 + 20 in the first step, with the moment 1 + 2 + 30 + 20 in the second; a then finds
// 30 MiB cut by the moment and takes a new segment.
TEST_CASE("tensors come and go in issue order, and state of the optimizer cuts what is free") {
  const AllocatorUse use = replay(chain({{"a", 30}, {"b", 20}, {"c", 24}}));
  CHECK(use.allocated == mebibytes(1 + 2 + 30 + 20));
  CHECK(use.reserved == mebibytes(2 + 30 + 20 + 30));
}

// a stays until backward begins with d: with b, c and d 30 + 20 + 24 are there when c acts, and
// 30 + 24 + 8 when d does.
TEST_CASE("what is kept stays until backward of its layer begins") {
  const std::vector<Step> steps = {{"a", 30}, {"b", 20}, {"c", 24}, {"d", 8, Phase::kInputGrad}};
  CHECK(replay(chain(steps)).allocated == mebibytes(3 + 30 + 20));
  CHECK(replay(chain(steps), {.kept = {"layer1.a"}}).allocated == mebibytes(3 + 30 + 20 + 24));
  CHECK(replay(chain(steps), {.kept = {"layer2.a"}}).allocated == mebibytes(3 + 30 + 20));
}

// At the end of backward: a, its copy, c and d.
TEST_CASE("what is collected is there twice when backward ends") {
  const std::vector<Step> steps = {{"a", 30}, {"b", 2}, {"c", 2}, {"d", 8, Phase::kInputGrad}};
  CHECK(replay(chain(steps), {.collected = {"layer1.a"}}).allocated ==
        mebibytes(3 + 30 + 30 + 2 + 8));
}

// f32 of 1 + 2 MiB are half in bf16, rounded to 512 B as before; the contents stay f32.
TEST_CASE("parameters and moments may be in another type, and the workspace is there always") {
  const AllocatorUse use =
      replay(chain({{"a", 30}, {"b", 20}}), {.all_in = DType::kBF16, .workspace = mebibytes(32)});
  CHECK(use.allocated == mebibytes(32 + 30 + 20) + Bytes(3 * kMebibyte / 2));
}

// ---------------------------------------------------------------- whole plans

PhysicalGraph plan_of(const std::string& strategy_text) {
  const Strategy strategy = parse_strategy(strategy_text);
  const Cluster cluster = load_cluster("dgx-h100");
  const TimingModels models = make_timing_models(cluster, DType::kBF16);
  const ModelConfig model = load_model("llama:layers=4,hidden=512,heads=8,vocab=8192,seq=256");
  const LogicalGraph training = make_training_graph(
      build_graph(model, strategy.dp * strategy.micro_batch, 256, DType::kBF16), strategy, {});
  return compile(training, strategy, strategy.dp * strategy.micro_batch, *models.cost,
                 *models.network, {});
}

// Every content lives as long as the plan says, one tensor each: never below the most bytes that
// live at one time without what the host touches and the rounding of frames to 256 B.
TEST_CASE("a plan's contents take about what its arena takes, and more is reserved") {
  const PhysicalGraph graph = plan_of("dp=1 micro_batch=4");
  const AllocatorUse use = replay(graph);
  const auto bound = static_cast<double>(graph.programs[ProgramId(0)].arena.lower_bound.value);
  CHECK(static_cast<double>(use.allocated.value) > 0.95 * bound);
  CHECK(static_cast<double>(use.allocated.value) < 1.10 * bound);
  CHECK(use.reserved >= use.allocated);
}

// The embedding and the head are gathered throughout: 2 x 8192 x 512 bf16 more than a plan that
// fetches each when its turn comes, and as much again in the flat buffer on its own stream.
TEST_CASE("units hold embedding and head from forward to backward, and buffers beside them") {
  const PhysicalGraph graph = plan_of("dp=4 micro_batch=4 zero=3");
  const Bytes root = Bytes(2 * 8192 * 512 * 2);
  const AllocatorUse fetched = replay(graph), gathered = replay(graph, {.gathered = DType::kBF16});
  CHECK(gathered.reserved > fetched.reserved + root);
  CHECK(gathered.reserved >= gathered.allocated + root);  // the buffer of the root, unused later
}

}  // namespace
}  // namespace sextant::allocator_replay_test
