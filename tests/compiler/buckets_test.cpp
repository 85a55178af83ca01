// Bucket fusion on chains whose times are known: who joins, who must not, and that it never pays
// with time.
#include "compiler/buckets.h"

#include "actor/byte_order.h"
#include "actor/dry_run.h"
#include "actor/tape.h"
#include "compiler/expand.h"
#include "tests/compiler/toy_chain.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

namespace sextant::testing::buckets_test {
namespace {

// alpha + one picosecond per byte, however many members.
class AlphaNetwork : public NetworkModel {
 public:
  explicit AlphaNetwork(std::int64_t alpha) : alpha_(alpha) {}
  void complete(const CollectiveCost& cost, std::span<const Time> arrivals,
                std::span<Time> done) const override {
    const Time last = *std::max_element(arrivals.begin(), arrivals.end());
    std::fill(done.begin(), done.end(), last + duration(cost));
  }
  Duration duration(const CollectiveCost& cost) const override {
    return Duration(alpha_ + cost.global_bytes.value);
  }

 private:
  std::int64_t alpha_;
};

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
  std::int32_t group = -1;
  for (const Run& run : graph.programs[0].order) {
    if (run.launch_group < 0) continue;
    if (run.launch_group != group) buckets.emplace_back();
    group = run.launch_group;
    const Instance& instance = graph.programs[0].instances[run.instance.index()];
    buckets.back().push_back(
        instance.name + "/" +
        graph.block_of(instance).actors[static_cast<std::size_t>(run.first_actor)].name);
  }
  for (auto& bucket : buckets) std::sort(bucket.begin(), bucket.end());
  return buckets;
}

Time step_end(const PhysicalGraph& graph, const NetworkModel& network) {
  const Tape tape = record(graph);
  const ToyCost cost;
  return evaluate(tape, graph, entry_durations(tape, graph, cost), cost, network, {})
      .step_end.back();
}

TEST_CASE("reductions that wait for each other start together, a lonely one does not wait") {
  // A start costs 1000 ps, a layer's backward 2: all three are ready long before the first is over.
  const AlphaNetwork slow_start(1000);
  const auto fused = buckets_of(expanded(three_layers(1), slow_start, {}));
  REQUIRE(fused.size() == 1);
  CHECK(fused[0] ==
        std::vector<std::string>{"layer0.reduce/dw.all_reduce", "layer1.reduce/dw.all_reduce",
                                 "layer2.reduce/count.all_reduce", "layer2.reduce/dw.all_reduce"});
  // A start costs 1 ps and a layer 100: each reduction is over before the next is ready.
  CHECK(buckets_of(expanded(three_layers(100), AlphaNetwork(1), {})).empty());
}

TEST_CASE("limits of bytes and operations cut buckets, and zero turns them off") {
  const AlphaNetwork network(1000);
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
class CountingNetwork : public AlphaNetwork {
 public:
  using AlphaNetwork::AlphaNetwork;
  Duration duration(const CollectiveCost& cost) const override {
    if (cost.global_bytes == Bytes(64)) ++questions;
    return AlphaNetwork::duration(cost);
  }
  mutable int questions = 0;
};

TEST_CASE("a collective that recurs in every layer is sized and timed once") {
  const auto questions = [](int layers, const BucketLimits& limits) {
    ToyChain chain = three_layers(1);
    chain.layers = {layers};
    const CountingNetwork network(1000);
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
  const AlphaNetwork network(1000);
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
    const AlphaNetwork network(std::int64_t{1} << variant % 11);
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

}  // namespace
}  // namespace sextant::testing::buckets_test
