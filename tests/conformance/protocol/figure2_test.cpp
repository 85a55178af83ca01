// The paper's Fig. 2: two loads feed two operators that do not fit into memory together. A
// scheduler that starts whatever is ready fills the memory with loads and blocks; actors finish in
// the same.
#include "actor/bytes/byte_order.h"
#include "actor/protocol/dry_run.h"
#include "tests/conformance/protocol/cpu_mix_devices.h"
#include "tests/support/graph_builder.h"
#include "tests/support/slot_planner.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <optional>

namespace sextant::figure2_test {
using namespace testing;

namespace {

constexpr std::int32_t kMicroBatches = 6;
constexpr std::int64_t kUnit = kBufferAlignment;  // a load's register; an operator's is two
constexpr std::int64_t kCapacity = 4 * kUnit;     // both loads and one operator: not two

// Starts what is ready, first come first served, and allocates when it starts: a load whenever it
// may run, an operator once its load is there. Returns the most bytes in use, or nothing when it
// blocks.
std::optional<std::int64_t> ready_queue_peak(std::int64_t capacity) {
  std::int64_t used = 0, peak = 0;
  std::int32_t loaded[2] = {0, 0}, operated[2] = {0, 0};
  while (operated[0] + operated[1] < 2 * kMicroBatches) {
    bool started = false;
    // Loads depend on nothing: all of them were ready, and so are queued, before any operator.
    while (loaded[1] < kMicroBatches && used + kUnit <= capacity) {
      ++loaded[loaded[0] > loaded[1] ? 1 : 0];
      used += kUnit;
      peak = std::max(peak, used);
      started = true;
    }
    for (int i = 0; i < 2; ++i) {
      if (operated[i] == loaded[i] || used + 2 * kUnit > capacity) continue;
      peak = std::max(peak, used + 2 * kUnit);
      used -= kUnit;  // its output is consumed at once, its input is free
      ++operated[i];
      started = true;
    }
    if (!started) return std::nullopt;
  }
  return peak;
}

// load i (copy in) -> operator i (compute) -> fold i (copy out), which keeps a running state.
PhysicalGraph two_loads_two_operators() {
  GraphBuilder builder;
  const PlacementId here = builder.placement({{"x", 1}}, Rank(0));
  const LayoutId small = builder.layout(Shape{32}, "B", here, DType::kI64);
  const LayoutId large = builder.layout(Shape{64}, "B", here, DType::kI64);
  const ProgramId program = builder.program("p", here);
  std::vector<InstanceId> loads, operators, folds;
  for (int i = 0; i < 2; ++i) {
    const std::string number = std::to_string(i + 1);
    BlockBuilder load(builder, "load" + number, Phase::kForward);
    const std::int32_t x = load.reg("x", small, load.frame());
    load.actor("load", QueueRole::kCopyIn, {}, {x});
    loads.push_back(builder.instance(program, load.finish(), "load" + number, kMicroBatches, {1}));
    BlockBuilder op(builder, "operator" + number, Phase::kForward);
    const Operand in = BlockBuilder::of_port(op.port("x", small));
    const std::int32_t y = op.reg("y", large, op.frame());
    op.actor("operator", QueueRole::kCompute, {in}, {y});
    operators.push_back(
        builder.instance(program, op.finish(), "operator" + number, kMicroBatches, {1}));
    BlockBuilder fold(builder, "fold" + number, Phase::kForward);
    const Operand result = BlockBuilder::of_port(fold.port("y", large));
    BlockBuilder::FrameOptions state;
    state.initially_full = true;
    const std::int32_t sum = fold.reg("sum", large, fold.frame(state));
    fold.actor("fold", QueueRole::kCopyOut, {result}, {sum}).attributes.set(kMixUpdates, true);
    folds.push_back(builder.instance(program, fold.finish(), "fold" + number, kMicroBatches, {1}));
    builder.link(program, loads.back(), x, operators.back(), 0);
    builder.link(program, operators.back(), y, folds.back(), 0);
  }
  for (std::int32_t act = 0; act < kMicroBatches; ++act) {
    for (const InstanceId load : loads) builder.act(program, load, act);
    for (std::size_t i = 0; i < 2; ++i) {
      builder.act(program, operators[i], act);
      builder.act(program, folds[i], act);
    }
  }
  builder.bind(program);
  PhysicalGraph graph = builder.graph();
  // Loads in units 0 and 1, both operators in units 2 and 3, the states behind them.
  const auto slot = [&](InstanceId instance) -> Bytes& {
    return graph.programs[ProgramId(0)].instances[instance].frames[0].slot_offsets[0];
  };
  for (std::int64_t i = 0; i < 2; ++i) {
    slot(loads[static_cast<std::size_t>(i)]) = Bytes(i * kUnit);
    slot(operators[static_cast<std::size_t>(i)]) = Bytes(2 * kUnit);
    slot(folds[static_cast<std::size_t>(i)]) = Bytes(kCapacity + 2 * i * kUnit);
  }
  return graph;
}

}  // namespace

TEST_CASE("the paper's Fig. 2: actors finish where a ready queue blocks") {
  // Four loads fill the four units before an operator can take its two.
  CHECK(!ready_queue_peak(kCapacity).has_value());
  // It needs room for more loads than are of any use.
  CHECK(ready_queue_peak(100 * kUnit).value() > kCapacity);

  PhysicalGraph graph = two_loads_two_operators();
  CHECK_NOTHROW(dry_run(graph));
  // Nothing but guards keeps the second operator off the bytes that the first one's reader uses.
  CHECK(!check_byte_order(graph, ProgramId(0)).empty());
  add_guards(graph);
  CHECK(check_byte_order(graph, ProgramId(0)) == std::vector<std::string>{});
  for (const FrameQuota& frame : ProgramTables(graph, ProgramId(0)).frames) {
    const Instance& instance = graph.programs[ProgramId(0)].instances[frame.instance];
    if (frame.initially_full) continue;
    const std::int64_t end =
        instance.frames[0].slot_offsets[0].value + graph.block_of(instance).frames[0].size.value;
    CHECK(end <= kCapacity);
  }
  const MixResult expected = mix_oracle(graph, 3);
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    CpuOptions options;
    options.queues = CpuQueueKind::kStress;
    options.seed = seed;
    options.max_delay_us = 100;
    options.rendezvous_timeout_ms = 20'000;
    CHECK(run_protocol(graph, cpu_mix_devices(options), 3).result == expected);
  }
}

}  // namespace sextant::figure2_test
