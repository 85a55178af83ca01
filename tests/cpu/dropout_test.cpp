// Dropout: which elements are kept, on shards of any mesh, in other acts, layers and streams, and
// on a device from step to step.
#include "backends/cpu/cpu_device.h"
#include "backends/cpu/kernels/shared/kernel.h"
#include "core/tensors/sbp.h"
#include "tests/cpu/device_harness.h"
#include "tests/cpu/kernel_call.h"
#include "tests/support/graph_builder.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

namespace sextant::dropout_test {
namespace {

using testing::BlockBuilder;
using testing::GraphBuilder;
using Numbers = std::vector<double>;

Attributes dropout_attributes(double rate, const std::string& stream = "residual") {
  return {{"rate", rate}, {"stream", stream}};
}

// Dropout of ones on the part of `global` that lies in `box`.
Numbers drop(const Shape& global, const Shard& box, double rate,
             const std::string& stream = "residual", std::uint64_t seed = 1,
             const ActPosition& act = {}) {
  const Shape local = box.local_shape();
  std::vector<std::int64_t> offsets;
  for (const Interval& dim : box.dims) offsets.push_back(dim.offset);
  const TensorType type{local, DType::kF64};
  const Numbers ones(static_cast<std::size_t>(local.elements()), 1.0);
  return KernelCall("dropout", dropout_attributes(rate, stream))
      .input({type, ones, offsets, global})
      .output({type, {}, offsets, global})
      .during(seed, act)
      .run(reference_kernels())[0];
}

Shard whole(const Shape& shape) {
  Shard box;
  for (const std::int64_t extent : shape.extents()) box.dims.push_back({0, extent});
  return box;
}

double share_of_equal(const Numbers& a, const Numbers& b) {
  std::size_t equal = 0;
  for (std::size_t i = 0; i < a.size(); ++i) equal += a[i] == b[i] ? 1 : 0;
  return static_cast<double>(equal) / static_cast<double>(a.size());
}

TEST_CASE(
    "the mask of an element is the same on 1, 2, 3 and 4 parts and on 2x2, whatever is split") {
  const Shape global{5, 3, 7};
  const Numbers wanted = drop(global, whole(global), 0.5);
  const auto check = [&](const std::vector<std::int64_t>& hierarchy, const std::string& words) {
    CAPTURE(words);
    std::int64_t devices = 1;
    for (const std::int64_t extent : hierarchy) devices *= extent;
    for (std::int64_t device = 0; device < devices; ++device) {
      std::vector<std::int64_t> at(hierarchy.size());
      for (std::size_t axis = hierarchy.size(), rest = static_cast<std::size_t>(device); axis-- > 0;
           rest /= static_cast<std::size_t>(hierarchy[axis]))
        at[axis] = static_cast<std::int64_t>(rest) % hierarchy[axis];
      const Shard box = shard_of(global, parse_nd_sbp(words), hierarchy, at);
      const Numbers found = drop(global, box, 0.5);
      for (std::size_t i = 0; i < found.size(); ++i)
        CHECK(found[i] == wanted[static_cast<std::size_t>(
                              global_index(static_cast<std::int64_t>(i), global, box))]);
    }
  };
  for (const std::int64_t parts : {1, 2, 3, 4})
    for (const char* word : {"S(0)", "S(1)", "S(2)", "B", "P(sum)"}) check({parts}, word);
  for (const char* words : {"(S(0), S(2))", "(S(2), S(0))", "(S(2), S(2))", "(S(2)^2, S(2)^1)",
                            "(B, S(1))", "(P(sum), S(0))"})
    check({2, 2}, words);
}

TEST_CASE("as many elements are kept as the rate says, scaled so that the mean stays") {
  const Shape shape{100'000};
  for (const double rate : {0.1, 0.3, 0.5, 0.9}) {
    const Numbers y = drop(shape, whole(shape), rate);
    const auto dropped = static_cast<double>(std::count(y.begin(), y.end(), 0.0));
    const auto kept = static_cast<double>(std::count(y.begin(), y.end(), 1 / (1 - rate)));
    CHECK(dropped + kept == static_cast<double>(y.size()));
    // A binomial count: five standard deviations.
    const double n = 1e5, deviation = std::sqrt(n * rate * (1 - rate));
    CHECK(std::abs(kept - n * (1 - rate)) < 5 * deviation);
  }
}

TEST_CASE("rate 0 keeps everything as it is and rate 1 nothing") {
  const Shape shape{1000};
  CHECK(drop(shape, whole(shape), 0.0) == Numbers(1000, 1.0));
  CHECK(drop(shape, whole(shape), 1.0) == Numbers(1000, 0.0));
}

TEST_CASE("seeds, layers, streams, steps and micro-batches have masks of their own") {
  const Shape shape{10'000};
  const auto mask = [&](std::uint64_t seed, const std::string& stream, const ActPosition& act) {
    return drop(shape, whole(shape), 0.5, stream, seed, act);
  };
  const std::vector<Numbers> masks = {
      mask(1, "residual", {0, 0, 0}),  mask(2, "residual", {0, 0, 0}),
      mask(1, "embedding", {0, 0, 0}), mask(1, "residual", {1, 0, 0}),
      mask(1, "residual", {0, 1, 0}),  mask(1, "residual", {0, 0, 1}),
      mask(1, "residual", {0, 1, 1})};
  CHECK(masks[0] == mask(1, "residual", {0, 0, 0}));
  for (std::size_t a = 0; a < masks.size(); ++a)
    for (std::size_t b = a + 1; b < masks.size(); ++b) {
      CAPTURE(a);
      CAPTURE(b);
      // Independent masks agree in half of 10^4 elements, deviation 50.
      CHECK(std::abs(share_of_equal(masks[a], masks[b]) - 0.5) < 0.025);
    }
}

TEST_CASE("storage types round the scaled element once") {
  // 3 / (1 - 1/3) = 4.5 needs 4 bits; 1 / (1 - .1) = 1.111... rounds to 1.109375 in bf16.
  const auto largest = [](double value, double rate) {
    const TensorType type{{64}, DType::kBF16};
    const Numbers y = KernelCall("dropout", dropout_attributes(rate))
                          .input({type, Numbers(64, value), {}})
                          .output({type, {}, {}})
                          .run(reference_kernels())[0];
    return *std::max_element(y.begin(), y.end());
  };
  CHECK(largest(3, 1.0 / 3) == 4.5);
  CHECK(largest(1, 0.1) == 1.109375);
}

TEST_CASE("a gradient told that its operator acts once per step draws the mask of micro-batch 0") {
  const TensorType type{{1000}, DType::kF64};
  Attributes attributes = dropout_attributes(0.5);
  attributes.set("per_step", true);
  CHECK(KernelCall("dropout", attributes)
            .input({type, Numbers(1000, 1.0), {}})
            .output({type, {}, {}})
            .during(7, {2, 3, 4})
            .run(reference_kernels())[0] ==
        drop(type.shape, whole(type.shape), 0.5, "residual", 7, {2, 3, 0}));
}

// Two layers of one block, forward and backward in instances of their own: ones -> dropout.
struct Layers {
  GraphBuilder builder;
  static constexpr int kForward1 = 0, kForward2 = 1, kBackward1 = 2;
  static constexpr int kOut = 1;  // register
  static constexpr std::int64_t kElements = 64;

  Layers() {
    const PlacementId here = builder.placement({{"x", 1}}, Rank(0));
    const LayoutId layout = builder.layout(Shape{kElements}, "B", here);
    const ProgramId program = builder.program("layers", here);
    BlockBuilder block(builder, "layer", Phase::kForward);
    const std::int32_t ones = block.reg("ones", layout, block.frame());
    const std::int32_t out = block.reg("out", layout, block.frame());
    Actor& constant = block.actor("ones", QueueRole::kCompute, {}, {ones});
    constant.kind = "constant";
    constant.attributes.set("value", 1.0);
    Actor& dropout =
        block.actor("dropout", QueueRole::kCompute, {BlockBuilder::of_register(ones)}, {out});
    dropout.kind = "dropout";
    dropout.attributes = dropout_attributes(0.5);
    const BlockId id = block.finish();
    for (const int layer : {1, 2, 1}) {
      const InstanceId instance = builder.instance(program, id, "layer", 2, {2, 2});
      builder.graph().programs[program].instances[instance].layer = layer;
    }
    for (std::int32_t act = 0; act < 2; ++act)
      for (const int instance : {kForward1, kForward2, kBackward1})
        builder.act(program, InstanceId(static_cast<std::size_t>(instance)), act);
    builder.bind(program);
  }
};

TEST_CASE(
    "on a device each layer, micro-batch and step has its mask, and the backward pass the same") {
  Layers layers;
  CpuOptions options;
  options.queues = CpuQueueKind::kInline;
  options.seed = 7;
  DeviceHarness harness(layers.builder.graph(), options, reference_kernels());
  const Shape shape{Layers::kElements};
  for (std::int64_t step = 0; step < 3; ++step) {
    for (int run = 0; run < 6; ++run) harness.launch(0, run, {}, step);
    for (const int instance : {Layers::kForward1, Layers::kForward2, Layers::kBackward1})
      for (int micro_batch = 0; micro_batch < 2; ++micro_batch) {
        const ActPosition act{instance == Layers::kForward2 ? 2 : 1, step, micro_batch};
        const Numbers wanted = drop(shape, whole(shape), 0.5, "residual", 7, act);
        const std::vector<float> found = harness.read(0, instance, Layers::kOut, micro_batch);
        CHECK(Numbers(found.begin(), found.end()) == wanted);
      }
  }
}

}  // namespace
}  // namespace sextant::dropout_test
