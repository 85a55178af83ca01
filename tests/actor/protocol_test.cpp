// Credits, Req, Ack and fences of one rank, read from the fence times of a stepped device.
#include "actor/protocol/protocol.h"

#include "actor/protocol/dry_run.h"
#include "actor/runtime.h"
#include "core/base/error.h"
#include "tests/support/graph_builder.h"
#include "tests/support/step_device.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>

namespace sextant::protocol_test {
using namespace testing;

namespace {

// Communications are absent from these graphs.
class NoNetwork : public NetworkModel {
 public:
  void complete(const CollectiveCost&, std::span<const Time>, std::span<Time>) const override {}
  Duration duration(const CollectiveCost&) const override { return {}; }
};

// A chain whose actors have a queue each, act by act.
PhysicalGraph chain_on_queues(const std::vector<std::int32_t>& num_registers, std::int32_t acts) {
  PhysicalGraph graph = chain_graph(num_registers, acts);
  const QueueRole queues[] = {QueueRole::kCopyIn, QueueRole::kCompute, QueueRole::kCopyOut,
                              QueueRole::kCollective};
  for (const BlockId i : graph.blocks.keys()) {
    graph.blocks[i].actors.front().queue = queues[i.index()];
  }
  return graph;
}

SteppedRun step_units(const PhysicalGraph& graph, std::int64_t steps = 1) {
  static const NoNetwork none;
  StepNetwork network(graph, none);
  StepOptions options;
  options.steps = steps;
  return run_stepped(
      graph, network, [](Rank, RunId, std::int64_t) { return Duration(1); }, options);
}

std::vector<std::int64_t> begins(const SteppedRun& run, QueueRole queue) {
  std::vector<std::int64_t> times;
  for (const auto& slice : run.devices.front().queue(queue)) times.push_back(slice.begin.value);
  return times;
}

// Every order of a chain's acts that counters as written in the paper accept: an act needs the
// content before it and, at register i, fewer than num_registers[i] contents not yet read.
std::vector<Run> random_accepted_order(const std::vector<std::int32_t>& num_registers,
                                       std::int32_t acts, std::mt19937& random) {
  const std::size_t n = num_registers.size();
  std::vector<std::int32_t> done(n, 0);
  std::vector<Run> order;
  while (order.size() < n * static_cast<std::size_t>(acts)) {
    std::vector<std::size_t> enabled;
    for (std::size_t i = 0; i < n; ++i) {
      const bool input = i == 0 || done[i - 1] > done[i];
      const bool credit = i + 1 == n || done[i] - done[i + 1] < num_registers[i];
      if (done[i] < acts && input && credit) enabled.push_back(i);
    }
    const std::size_t chosen = enabled[random() % enabled.size()];
    order.push_back({InstanceId(chosen), 0, 1, done[chosen]++, {}});
  }
  return order;
}

}  // namespace

TEST_CASE("the paper's Fig. 6: registers 3, 2, 2, one queue per actor") {
  // All durations 1. a1 acts at 0, 1, 2 (three registers), a2 one later, a3 one later still.
  // a1's content 0 is read by a2 in [1, 2), so at t2 its first buffer is free again: act 3 of a1,
  // which takes that credit, begins at 3 because of a1's own queue, not because of the credit.
  const PhysicalGraph graph = chain_on_queues({3, 2, 2}, 6);
  const SteppedRun run = step_units(graph);
  CHECK(begins(run, QueueRole::kCopyIn) == std::vector<std::int64_t>{0, 1, 2, 3, 4, 5});
  CHECK(begins(run, QueueRole::kCompute) == std::vector<std::int64_t>{1, 2, 3, 4, 5, 6});
  CHECK(begins(run, QueueRole::kCopyOut) == std::vector<std::int64_t>{2, 3, 4, 5, 6, 7});
  const StepDevice& device = run.devices.front();
  const auto& fourth = device.queue(QueueRole::kCopyIn)[3];
  REQUIRE(fourth.waits.size() == 1);
  CHECK(fourth.waits[0] == Fence{QueueRole::kCompute, 0});
  CHECK(device.slice(fourth.waits[0]).end == Time(2));
  // The first three acts of a1 take credits that were there from the start.
  for (std::size_t act = 0; act < 3; ++act) {
    CHECK(device.queue(QueueRole::kCopyIn)[act].waits.empty());
  }
}

TEST_CASE("one register makes producer and consumer alternate") {
  // a1 [0,1), a2 [1,2), and a1 may not begin again before a2 has read: 2, 4, 6.
  const SteppedRun run = step_units(chain_on_queues({1, 1}, 4));
  CHECK(begins(run, QueueRole::kCopyIn) == std::vector<std::int64_t>{0, 2, 4, 6});
  CHECK(begins(run, QueueRole::kCompute) == std::vector<std::int64_t>{1, 3, 5, 7});
}

TEST_CASE("every accepted issue order gives the same fence times") {
  const std::vector<std::vector<std::int32_t>> quotas = {
      {3, 2, 2}, {1, 1, 1}, {1, 3, 2}, {2, 1, 4, 1}};
  std::mt19937 random(1);
  for (const auto& quota : quotas) {
    PhysicalGraph graph = chain_on_queues(quota, 8);
    std::vector<std::vector<std::int64_t>> expected;
    for (int trial = 0; trial < 200; ++trial) {
      graph.programs[ProgramId(0)].order =
          Table<RunId, Run>(random_accepted_order(quota, 8, random));
      const SteppedRun run = step_units(graph, 2);
      std::vector<std::vector<std::int64_t>> times;
      for (const QueueRole queue :
           {QueueRole::kCopyIn, QueueRole::kCompute, QueueRole::kCopyOut, QueueRole::kCollective}) {
        times.push_back(begins(run, queue));
      }
      if (expected.empty()) expected = times;
      REQUIRE(times == expected);
    }
  }
}

TEST_CASE("contents per step need not be a multiple of the registers") {
  // m = 5 contents on 2 registers, twice: content 5 (the first of step 1) takes the credit that
  // content 3 returned, across the step boundary.
  const PhysicalGraph graph = chain_on_queues({2, 1}, 5);
  const SteppedRun run = step_units(graph, 2);
  const auto& first_of_second_step = run.devices.front().queue(QueueRole::kCopyIn)[5];
  CHECK(first_of_second_step.waits == std::vector<Fence>{{QueueRole::kCompute, 3}});
  // a1 runs two ahead; steady state is one act per unit on both queues.
  CHECK(begins(run, QueueRole::kCopyIn) == std::vector<std::int64_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
}

TEST_CASE("an order that takes a credit too early is refused, naming frame and reader") {
  PhysicalGraph graph = chain_on_queues({2, 1}, 4);
  // Three acts of a1 before the first of a2, with two registers.
  auto& order = graph.programs[ProgramId(0)].order;
  order = {{InstanceId(0), 0, 1, 0, {}}, {InstanceId(0), 0, 1, 1, {}}, {InstanceId(0), 0, 1, 2, {}},
           {InstanceId(1), 0, 1, 0, {}}, {InstanceId(1), 0, 1, 1, {}}, {InstanceId(1), 0, 1, 2, {}},
           {InstanceId(0), 0, 1, 3, {}}, {InstanceId(1), 0, 1, 3, {}}};
  try {
    dry_run(graph);
    FAIL("accepted");
  } catch (const Error& error) {
    const std::string text = error.what();
    CHECK(error.code() == ErrorCode::kInfeasible);
    CHECK(text.find("run 2: a1[a1] act 2") != std::string::npos);
    CHECK(text.find("a credit of frame 0 of 'a1' (2 registers), which a2[a2] has not acked") !=
          std::string::npos);
    CHECK(text.find("not before run 3") != std::string::npos);
  }
}

TEST_CASE("an order that reads before writing is refused") {
  PhysicalGraph graph = chain_on_queues({1, 1}, 1);
  std::swap(graph.programs[ProgramId(0)].order[RunId(0)],
            graph.programs[ProgramId(0)].order[RunId(1)]);
  CHECK_THROWS_WITH_AS(dry_run(graph),
                       doctest::Contains("needs the next content of frame 0 of 'a1'"), Error);
}

namespace {

// updater (state, once per step) <- reads accumulated gradient; worker reads the state m times.
struct StateGraph {
  PhysicalGraph graph;
  RunId update;
};

StateGraph state_graph(std::int32_t m, bool worker_reads_state) {
  GraphBuilder builder;
  const PlacementId here = builder.placement({{"x", 1}}, Rank(0));
  const LayoutId layout = builder.layout(Shape{4}, "B", here);
  const ProgramId program = builder.program("p", here);
  BlockBuilder work(builder, "work", Phase::kForward);
  std::vector<Operand> in;
  if (worker_reads_state) in.push_back(BlockBuilder::of_port(work.port("state", layout)));
  BlockBuilder::FrameOptions accumulated;
  accumulated.acts_per_content = m;
  const std::int32_t sum = work.reg("sum", layout, work.frame(accumulated));
  work.actor("work", QueueRole::kCompute, in, {sum});
  const InstanceId worker = builder.instance(program, work.finish(), "work", m, {1});
  BlockBuilder update(builder, "update", Phase::kOptimizer);
  const Operand gradient = BlockBuilder::of_port(update.port("sum", layout));
  BlockBuilder::FrameOptions state;
  state.initially_full = true;
  const std::int32_t value = update.reg("state", layout, update.frame(state));
  update.actor("update", QueueRole::kCopyOut, {gradient}, {value});
  const InstanceId updater = builder.instance(program, update.finish(), "update", 1, {1});
  builder.link(program, worker, sum, updater, 0);
  if (worker_reads_state) builder.link(program, updater, value, worker, 0, m);
  for (std::int32_t act = 0; act < m; ++act) builder.act(program, worker, act);
  builder.act(program, updater, 0);
  builder.bind(program);
  return {builder.graph(), RunId(m)};
}

}  // namespace

TEST_CASE("state: every step reads the version the step before made, with any run-ahead") {
  // Three acts of work, then the update [3,4); the next step's work waits for it: 4, 5, 6 and so
  // on.
  const StateGraph made = state_graph(3, true);
  const SteppedRun run = step_units(made.graph, 3);
  CHECK(begins(run, QueueRole::kCompute) == std::vector<std::int64_t>{0, 1, 2, 4, 5, 6, 8, 9, 10});
  CHECK(begins(run, QueueRole::kCopyOut) == std::vector<std::int64_t>{3, 7, 11});
}

TEST_CASE("state without a reader is updated each step and never waits for anybody's Ack") {
  const StateGraph made = state_graph(3, false);
  const SteppedRun run = step_units(made.graph, 3);
  // The accumulator has one register: work of the next step waits for the update that reads it.
  CHECK(begins(run, QueueRole::kCompute) == std::vector<std::int64_t>{0, 1, 2, 4, 5, 6, 8, 9, 10});
  CHECK(begins(run, QueueRole::kCopyOut) == std::vector<std::int64_t>{3, 7, 11});
  // The update waits for the accumulated content only.
  for (const auto& slice : run.devices.front().queue(QueueRole::kCopyOut)) {
    CHECK(slice.waits.size() == 1);
  }
}

TEST_CASE("accumulation: Req carries the fence of the last act, the credit is taken at the first") {
  const StateGraph made = state_graph(4, false);
  const SteppedRun run = step_units(made.graph, 2);
  const StepDevice& device = run.devices.front();
  CHECK(device.slice_of(made.update, 0).waits == std::vector<Fence>{{QueueRole::kCompute, 3}});
  CHECK(device.slice_of(RunId(0), 1).waits == std::vector<Fence>{{QueueRole::kCopyOut, 0}});
  for (int act = 1; act < 4; ++act) CHECK(device.slice_of(RunId(act), 1).waits.empty());
}

TEST_CASE("a frame of two writers takes one credit and returns when all readers of both acked") {
  GraphBuilder builder;
  const PlacementId here = builder.placement({{"x", 1}}, Rank(0));
  const LayoutId layout = builder.layout(Shape{4}, "B", here);
  const ProgramId program = builder.program("p", here);
  BlockBuilder block(builder, "two", Phase::kForward);
  const std::int32_t frame = block.frame();
  const std::int32_t a = block.reg("a", layout, frame);
  const std::int32_t b = block.reg("b", layout, frame);
  block.actor("write_a", QueueRole::kCompute, {}, {a});
  block.actor("write_b", QueueRole::kCopyIn, {}, {b});
  block.actor("read_a", QueueRole::kCopyOut, {BlockBuilder::of_register(a)}, {});
  const InstanceId two = builder.instance(program, block.finish(), "two", 3, {1});
  for (std::int32_t act = 0; act < 3; ++act) builder.act(program, two, act);
  builder.bind(program);
  const PhysicalGraph graph = builder.graph();
  const SteppedRun run = step_units(graph);
  // write_a k+1 waits for read_a k and for write_b k (nobody reads b: it acks itself).
  const auto& writes = run.devices.front().queue(QueueRole::kCompute);
  CHECK(writes[1].waits == std::vector<Fence>{{QueueRole::kCopyIn, 0}, {QueueRole::kCopyOut, 0}});
  // write_b shares the credit and waits for nothing: its bytes are a guard's business.
  for (const auto& slice : run.devices.front().queue(QueueRole::kCopyIn)) {
    CHECK(slice.waits.empty());
  }
  CHECK(begins(run, QueueRole::kCompute) == std::vector<std::int64_t>{0, 2, 4});
}

TEST_CASE("what a queue has waited for before is not waited for again") {
  // Two readers of one content on one queue: the second needs no wait.
  GraphBuilder builder;
  const PlacementId here = builder.placement({{"x", 1}}, Rank(0));
  const LayoutId layout = builder.layout(Shape{4}, "B", here);
  const ProgramId program = builder.program("p", here);
  BlockBuilder block(builder, "b", Phase::kForward);
  const std::int32_t value = block.reg("v", layout, block.frame());
  block.actor("write", QueueRole::kCopyIn, {}, {value});
  block.actor("first", QueueRole::kCompute, {BlockBuilder::of_register(value)}, {});
  block.actor("second", QueueRole::kCompute, {BlockBuilder::of_register(value)}, {});
  const InstanceId instance = builder.instance(program, block.finish(), "i", 1, {1});
  for (std::int32_t actor = 0; actor < 3; ++actor) {
    builder.run(program, {instance, actor, 1, 0, {}});
  }
  builder.bind(program);
  const PhysicalGraph graph = builder.graph();
  const SteppedRun run = step_units(graph, 2);
  const auto& reads = run.devices.front().queue(QueueRole::kCompute);
  CHECK(reads[0].waits == std::vector<Fence>{{QueueRole::kCopyIn, 0}});
  CHECK(reads[1].waits.empty());
  // The credit of the second step waits for the later of the two readers only.
  CHECK(run.devices.front().queue(QueueRole::kCopyIn)[1].waits ==
        std::vector<Fence>{{QueueRole::kCompute, 1}});
}

TEST_CASE("runs may cut the actors of an instance differently from act to act") {
  // write and read are one run in act 0 and two runs in act 1.
  GraphBuilder builder;
  const PlacementId here = builder.placement({{"x", 1}}, Rank(0));
  const LayoutId layout = builder.layout(Shape{4}, "B", here);
  const ProgramId program = builder.program("p", here);
  BlockBuilder block(builder, "b", Phase::kForward);
  const std::int32_t value = block.reg("v", layout, block.frame());
  block.actor("write", QueueRole::kCompute, {}, {value});
  block.actor("read", QueueRole::kCompute, {BlockBuilder::of_register(value)}, {});
  const InstanceId instance = builder.instance(program, block.finish(), "i", 2, {1});
  builder.run(program, {instance, 0, 2, 0, {}});
  builder.run(program, {instance, 0, 1, 1, {}});
  builder.run(program, {instance, 1, 1, 1, {}});
  builder.bind(program);
  const PhysicalGraph graph = builder.graph();
  const ProgramTables tables(graph, program);
  CHECK(tables.sites.size() == 2);
  CHECK(tables.runs[0].num_sites == 2);
  const SteppedRun run = step_units(graph, 2);
  CHECK(begins(run, QueueRole::kCompute) == std::vector<std::int64_t>{0, 1, 2, 3, 4, 5});
}

TEST_CASE("tables refuse graphs whose rates, orders or groups do not fit") {
  const auto refused = [](const PhysicalGraph& graph, const char* text) {
    CHECK_THROWS_WITH_AS(ProgramTables(graph, ProgramId(0)), doctest::Contains(text), Error);
  };
  const PhysicalGraph good = chain_on_queues({2, 2}, 4);
  PhysicalGraph bad = good;
  bad.programs[ProgramId(0)].links[0].consume_for = 2;
  refused(bad, "4 contents per step for 2 acts each");
  bad = good;
  std::swap(bad.programs[ProgramId(0)].order[RunId(0)], bad.programs[ProgramId(0)].order[RunId(2)]);
  refused(bad, "act 0 comes next");
  bad = good;
  bad.programs[ProgramId(0)].order.pop_back();
  refused(bad, "is issued 3 times, not 4");
  bad = good;
  bad.programs[ProgramId(0)].instances[InstanceId(0)].frames[0].num_registers = 5;
  refused(bad, "5 registers, wanted 1 .. 4");
  bad = good;
  bad.programs[ProgramId(0)].instances[InstanceId(0)].frames[0].slot_of_content[1] = 7;
  refused(bad, "slot 7 of 2");
  bad = good;
  bad.programs[ProgramId(0)].order[RunId(0)].launch_group =
      bad.programs[ProgramId(0)].order[RunId(1)].launch_group = LaunchGroupId(0);
  refused(bad, "only communications start together");
  bad = good;
  bad.programs[ProgramId(0)].order[RunId(0)].num_actors = 2;
  refused(bad, "actors 0 .. 1 of 'a1', which has 1");
  bad = good;
  bad.programs[ProgramId(0)].guards.push_back({RunId(1), RunId(2), 0});
  refused(bad, "cannot wait for run 2");
  bad = good;
  bad.programs[ProgramId(0)].links.clear();
  refused(bad, "no link leads to port");
  bad = good;
  bad.blocks[BlockId(1)].ports[0].readers.clear();
  refused(bad, "does not list its reader");
}

}  // namespace sextant::protocol_test
