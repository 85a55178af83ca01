// The paper's Fig. 2: two loads feed two operators that do not fit into memory together.
#include "actor/bytes/byte_order.h"
#include "actor/protocol/dry_run.h"
#include "tests/support/graph_builder.h"
#include "tests/support/slot_planner.h"
#include "tests/support/step_device.h"

#include <doctest/doctest.h>

#include <array>

namespace sextant::memory_pressure_test {
using namespace testing;

namespace {

// Every register is one buffer of this size: a load's output and an operator's output.
constexpr std::int64_t kBuffer = 1024;
constexpr std::int64_t kMemory = 2 * kBuffer;

// load k -> operator k -> use k, for k = 0, 1. Loads and operators have a queue each.
PhysicalGraph two_chains() {
  GraphBuilder builder;
  const PlacementId placement = builder.placement({{"dp", 1}}, Rank(0));
  const LayoutId layout = builder.layout(Shape{kBuffer / 4}, "B", placement);
  const ProgramId program = builder.program("stage0", placement);
  std::array<InstanceId, 6> instances;
  for (std::size_t k = 0; k < 2; ++k) {
    const std::string number = std::to_string(k);
    BlockBuilder load(builder, "load" + number, Phase::kForward);
    const std::int32_t loaded = load.reg("loaded", layout, load.frame());
    load.actor("load", QueueRole::kCopyIn, {}, {loaded});
    instances[3 * k] = builder.instance(program, load.finish(), "load" + number, 1, {1});
    BlockBuilder op(builder, "op" + number, Phase::kForward);
    const std::int32_t input = op.port("loaded", layout);
    const std::int32_t result = op.reg("result", layout, op.frame());
    op.actor("op", QueueRole::kCompute, {BlockBuilder::of_port(input)}, {result});
    instances[3 * k + 1] = builder.instance(program, op.finish(), "op" + number, 1, {1});
    BlockBuilder use(builder, "use" + number, Phase::kForward);
    const std::int32_t value = use.port("result", layout);
    use.actor("use", QueueRole::kCompute, {BlockBuilder::of_port(value)}, {});
    instances[3 * k + 2] = builder.instance(program, use.finish(), "use" + number, 1, {});
    builder.link(program, instances[3 * k], loaded, instances[3 * k + 1], input);
    builder.link(program, instances[3 * k + 1], result, instances[3 * k + 2], value);
  }
  for (const InstanceId instance : instances) builder.act(program, instance, 0);
  builder.bind(program);
  return builder.graph();
}

// A scheduler that starts whatever is ready and finds a free buffer, loads first, as a ready queue
// fed by two devices does. Returns how many of the six operators ran before nothing could start.
int run_ready_queue(std::int64_t memory) {
  std::array<bool, 6> done{};
  std::int64_t free = memory;
  int ran = 0;
  for (bool progress = true; progress;) {
    progress = false;
    for (const std::size_t kind : {0U, 1U, 2U}) {
      for (std::size_t k = 0; k < 2; ++k) {
        const std::size_t self = 3 * k + kind;
        const bool ready = !done[self] && (kind == 0 || done[self - 1]);
        const std::int64_t needs = kind == 2 ? 0 : kBuffer;
        if (!ready || free < needs) continue;
        done[self] = progress = true;
        ++ran;
        free -= needs;
        if (kind > 0) free += kBuffer;  // its input is read
      }
    }
  }
  return ran;
}

class NoNetwork : public NetworkModel {
 public:
  void complete(const CollectiveCost&, std::span<const Time>, std::span<Time>) const override {}
  Duration duration(const CollectiveCost&) const override { return {}; }
};

}  // namespace

TEST_CASE("Fig. 2: a ready queue stops with both loads in memory, the actors finish in as much") {
  // Two buffers hold one load and one result. Both loads are ready at once and take both; then
  // neither operator has room for its result.
  CHECK(run_ready_queue(kMemory) == 2);
  CHECK(run_ready_queue(2 * kMemory) == 6);

  PhysicalGraph graph = two_chains();
  fit_registers(graph);
  share_slots(graph);
  add_guards(graph);
  REQUIRE(validate(graph) == std::vector<std::string>{});
  CHECK(graph.programs[ProgramId(0)].arena.size == Bytes(kMemory));
  CHECK_NOTHROW(dry_run(graph));
  CHECK(check_byte_order(graph, ProgramId(0)) == std::vector<std::string>{});

  // Unit durations: load 0 [0,1), op 0 [1,2), use 0 [2,3). Load 1 takes the bytes of load 0, so it
  // waits for op 0, the reader: [2,3). Op 1 has both its input and op 0's bytes (read by use 0) at
  // 3: [3,4), use 1 [4,5).
  const NoNetwork none;
  StepNetwork network(graph, none);
  StepOptions options;
  options.steps = 1;
  const SteppedRun run = run_stepped(
      graph, network, [](Rank, RunId, std::int64_t) { return Duration(1); }, options);
  const StepDevice& device = run.devices.front();
  const auto& loads = device.queue(QueueRole::kCopyIn);
  const auto& computes = device.queue(QueueRole::kCompute);
  REQUIRE(loads.size() == 2);
  REQUIRE(computes.size() == 4);
  CHECK(loads[0].begin == Time(0));
  CHECK(loads[1].begin == Time(2));
  CHECK(loads[1].waits == std::vector<Fence>{{QueueRole::kCompute, 0}});
  CHECK(computes[2].begin == Time(3));
  CHECK(computes[3].end == Time(5));
}

}  // namespace sextant::memory_pressure_test
