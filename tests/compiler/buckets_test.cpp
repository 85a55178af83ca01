// Bucket fusion on chains whose times are known: who joins, who must not, and that it never pays
// with time.
#include "compiler/order/buckets.h"

#include "actor/bytes/byte_order.h"
#include "actor/protocol/dry_run.h"
#include "compiler/expand/expand.h"
#include "compiler/training/training_graph.h"
#include "tests/compiler/step_times.h"
#include "tests/compiler/toy_chain.h"
#include "tests/compiler/toy_models.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace sextant::testing::buckets_test {
namespace {

// Three layers on two replicas; each gradient is 4 x 4 f32 = 64 bytes, the last layer counts
// samples in 4 bytes more.
ToyChain three_layers(std::int64_t weight_grad) {
  ToyChain chain;
  chain.layers = {3};
  chain.micro_batches = 2;
  chain.dp = 2;
  chain.weight_grad = {weight_grad};
  return chain;
}

constexpr BucketLimits kOff{.bytes = Bytes(0), .operations = 0};

PhysicalGraph expanded(const ToyChain& chain, const NetworkModel& network,
                       const BucketLimits& limits) {
  ExpandOptions options;
  options.buckets = limits;
  return expand(toy_chain(chain), toy_operators(), ToyCost(), network, options);
}

// Names of the members of each bucket, sorted, by bucket in order.
std::vector<std::vector<std::string>> buckets_of(const PhysicalGraph& graph) {
  std::vector<std::vector<std::string>> buckets;
  LaunchGroupId group;
  for (const Run& run : graph.programs[ProgramId(0)].order) {
    if (!run.launch_group.is_valid()) continue;
    if (run.launch_group != group) buckets.emplace_back();
    group = run.launch_group;
    const Instance& instance = graph.programs[ProgramId(0)].instances[run.instance];
    buckets.back().push_back(
        instance.name + "/" +
        graph.block_of(instance).actors[static_cast<std::size_t>(run.first_actor)].name);
  }
  for (auto& bucket : buckets) std::sort(bucket.begin(), bucket.end());
  return buckets;
}

Time step_end(const PhysicalGraph& graph, const NetworkModel& network) {
  return step_end(graph, ToyCost(), network);
}

TEST_CASE("reductions that wait for each other start together") {
  // A start costs 1000 ps, a layer's backward 2: all three are ready long before the first is over.
  const LineNetwork slow_start(1000, 1);
  const auto fused = buckets_of(expanded(three_layers(1), slow_start, {}));
  REQUIRE(fused.size() == 1);
  CHECK(fused[0] ==
        std::vector<std::string>{"layer0.reduce/dw.all_reduce", "layer1.reduce/dw.all_reduce",
                                 "layer2.reduce/count.all_reduce", "layer2.reduce/dw.all_reduce"});
}

TEST_CASE("reductions wait for the next one where nobody waits for them, and no longer") {
  // A start costs 1 ps, a layer's reduction 65 and all of its backward W + 1. Counted from the end
  // of W of layer 2, gradients are there at 0, W + 1 and 2 W + 2, where the updates begin; that of
  // layer 0 waits for its reduction until 2 W + 67. So the one before must be over by 2 W + 2, and
  // the first by 2 W - 63; the count, of 5 ps and there long before, by 2 W - 128.
  const LineNetwork network(1, 1);
  // The count waits for layer 2: 69 <= 72. Both until W + 1 for layer 1 would end at 234.
  CHECK(buckets_of(expanded(three_layers(100), network, {})) ==
        std::vector<std::vector<std::string>>{
            {"layer2.reduce/count.all_reduce", "layer2.reduce/dw.all_reduce"}});
  // All three: 301 + 133 <= 600 - 128. Layer 0 is waited for.
  CHECK(buckets_of(expanded(three_layers(300), network, {})) ==
        std::vector<std::vector<std::string>>{{"layer1.reduce/dw.all_reduce",
                                               "layer2.reduce/count.all_reduce",
                                               "layer2.reduce/dw.all_reduce"}});
  for (const std::int64_t weight_grad : {100, 300})
    CHECK(step_end(expanded(three_layers(weight_grad), network, {}), network) ==
          step_end(expanded(three_layers(weight_grad), network, kOff), network));
}

TEST_CASE("limits of bytes and operations cut buckets, and zero turns them off") {
  const LineNetwork network(1000, 1);
  const auto sizes = [&](const BucketLimits& limits) {
    std::vector<std::size_t> sizes;
    for (const auto& bucket : buckets_of(expanded(three_layers(1), network, limits)))
      sizes.push_back(bucket.size());
    return sizes;
  };
  CHECK(sizes({.bytes = Bytes(196), .operations = 64}) == std::vector<std::size_t>{4});
  CHECK(sizes({.bytes = Bytes(195), .operations = 64}) == std::vector<std::size_t>{3});
  CHECK(sizes({.bytes = Bytes(63), .operations = 64}).empty());
  CHECK(sizes({.bytes = Bytes(1 << 20), .operations = 2}) == std::vector<std::size_t>{2, 2});
  CHECK(sizes({.bytes = Bytes(1 << 20), .operations = 1}).empty());
  CHECK(sizes(kOff).empty());
}

// Counts how often it is asked for one gradient by itself, 64 bytes.
class CountingNetwork : public LineNetwork {
 public:
  using LineNetwork::LineNetwork;
  Duration duration(const CollectiveCost& cost) const override {
    if (cost.global_bytes == Bytes(64)) ++questions;
    return LineNetwork::duration(cost);
  }
  mutable int questions = 0;
};

TEST_CASE("a collective that recurs in every layer is sized and timed once") {
  const auto questions = [](int layers, const BucketLimits& limits) {
    ToyChain chain = three_layers(1);
    chain.layers = {layers};
    const CountingNetwork network(1000, 1);
    expanded(chain, network, limits);
    return network.questions;
  };
  // Fusing asks once more than the blocks themselves, however many layers there are.
  CHECK(questions(3, {}) == questions(3, kOff) + 1);
  CHECK(questions(30, {}) == questions(30, kOff) + 1);
}

TEST_CASE("a bucket is one start of the network and all of its bytes") {
  // Forward and backward of three layers and two micro-batches with W = 1: all gradients are there
  // within 3 ps of each other, so four starts become one: 3000 ps less, less the waiting.
  const LineNetwork network(1000, 1);
  const Time alone = step_end(expanded(three_layers(1), network, kOff), network);
  const Time fused = step_end(expanded(three_layers(1), network, {}), network);
  CHECK((alone - fused).value > 3 * 2950);  // three steps are timed
  CHECK((alone - fused).value <= 3 * 3000);
}

TEST_CASE("fused chains are sound and no slower, whatever the schedule, words and starts") {
  std::size_t num_buckets = 0;
  for (int variant = 0; variant < 48; ++variant) {
    CAPTURE(variant);
    ToyChain chain;
    chain.layers = variant % 2 == 0 ? std::vector<int>{2, 1, 3} : std::vector<int>{4};
    chain.micro_batches = 1 + variant % 4;
    chain.dp = 2;
    chain.tp = variant % 3 == 0 ? 2 : 1;
    chain.hidden = variant % 5 == 0 ? 5 : 4;
    chain.gather = variant / 2 % 2 == 1;
    chain.cast = variant / 4 % 2 == 1;
    chain.tied = variant / 8 % 2 == 1;
    chain.host = variant / 16 % 2 == 1;
    const LineNetwork network(std::int64_t{1} << variant % 11, 1);
    for (const Schedule schedule :
         {Schedule::kGPipe, Schedule::kOneFOneB, Schedule::kZeroBubbleH1}) {
      ExpandOptions options;
      options.schedule = schedule;  // expand proves order, rates, bytes and the dry run
      const PhysicalGraph fused =
          expand(toy_chain(chain), toy_operators(), ToyCost(), network, options);
      options.buckets = kOff;
      const PhysicalGraph alone =
          expand(toy_chain(chain), toy_operators(), ToyCost(), network, options);
      num_buckets += buckets_of(fused).size();
      CHECK(buckets_of(alone).empty());
      if (chain.layers.size() == 1) CHECK(step_end(fused, network) <= step_end(alone, network));
    }
  }
  CHECK(num_buckets > 30);
}

// A kernel takes as long as its bytes.
class ByteCost : public CostModel {
 public:
  Duration duration(const Work& work) const override {
    return Duration(1 + work.read.value + work.written.value);
  }
  Duration launch_cost() const override { return Duration(0); }
};

TEST_CASE(
    "gathers of ZeRO 3 start together in every micro-batch, and nobody waits longer for them") {
  const Strategy strategy = parse_strategy("dp=2 zero=3");
  const ToyGpt model{.batch = 2, .hidden = 32, .vocab = 40, .ffn = 64, .compute = DType::kBF16};
  const LogicalGraph training = make_training_graph(toy_gpt(model), strategy);
  const auto compiled = [&](const NetworkModel& network, const BucketLimits& limits) {
    ExpandOptions options;
    options.buckets = limits;
    options.plan_memory = false;  // what waits for reused bytes is the packing's matter
    return compile(training, strategy, 6, ByteCost(), network, options);
  };
  for (const std::int64_t alpha : {1, 100, 10000}) {
    CAPTURE(alpha);
    const LineNetwork network(alpha, 1);
    const PhysicalGraph fused = compiled(network, {}), alone = compiled(network, kOff);
    const RankProgram& program = fused.programs[ProgramId(0)];
    std::map<LaunchGroupId, std::set<std::int32_t>> acts;  // of gathers, by bucket
    std::map<LaunchGroupId, int> sizes;
    for (const Run& run : program.order) {
      const Instance& instance = program.instances[run.instance];
      if (!run.launch_group.is_valid() || instance.name.find("fetch_") == std::string::npos)
        continue;
      acts[run.launch_group].insert(run.act);
      ++sizes[run.launch_group];
    }
    // A bucket at least for each of two layers, forward and backward, in three micro-batches.
    CHECK(acts.size() >= 12);
    for (const auto& [bucket, own] : acts) CHECK(own.size() == 1);
    for (const auto& [bucket, size] : sizes) CHECK(size >= 2);
    CHECK(step_end(fused, ByteCost(), network) <= step_end(alone, ByteCost(), network));
  }
}

}  // namespace
}  // namespace sextant::testing::buckets_test
