// Expansion of toy chains: what it makes is valid, runs, orders its bytes, wastes nothing and takes
// the time that the schedule's formula says.
#include "compiler/expand/expand.h"

#include "actor/bytes/byte_order.h"
#include "actor/protocol/dry_run.h"
#include "actor/tapes/tape.h"
#include "core/base/error.h"
#include "tests/compiler/toy_chain.h"
#include "tests/support/recorded_step.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace sextant::expand_test {
namespace {

using testing::toy_chain;
using testing::ToyChain;
using testing::ToyCost;
using testing::ToyNetwork;

constexpr Schedule kSchedules[] = {Schedule::kGPipe, Schedule::kOneFOneB, Schedule::kZeroBubbleH1};

PhysicalGraph expand_toy(const ToyChain& chain, ExpandOptions options = {},
                         const ToyNetwork& network = ToyNetwork()) {
  return expand(toy_chain(chain), testing::toy_operators(), ToyCost(), network, options);
}

ExpandOptions with_schedule(Schedule schedule) {
  ExpandOptions options;
  options.schedule = schedule;
  options.checks = false;  // the tests look themselves
  return options;
}

// What every graph has to keep, whatever it was made from.
void check_sound(const PhysicalGraph& graph) {
  CHECK(validate(graph) == std::vector<std::string>());
  CHECK_NOTHROW(dry_run(graph, RankScope::kAllRanks));
  for (const ProgramId program : graph.programs.keys())
    CHECK(check_byte_order(graph, program) == std::vector<std::string>());
}

const Instance& instance_named(const RankProgram& program, const std::string& name) {
  const auto found = std::find_if(program.instances.begin(), program.instances.end(),
                                  [&](const Instance& instance) { return instance.name == name; });
  REQUIRE(found != program.instances.end());
  return *found;
}

// Registers of what the first layer of a stage saves for backward.
std::int32_t saved_registers(const PhysicalGraph& graph, std::size_t stage) {
  for (const Instance& instance : graph.programs[ProgramId(stage)].instances) {
    const Block& block = graph.block_of(instance);
    for (const Register& reg : block.registers)
      if (reg.name == "saved")
        return instance.frames[static_cast<std::size_t>(reg.frame)].num_registers;
  }
  FAIL("stage " << stage << " saves nothing");
  return 0;
}

// Steps of constant length once the pipeline is filled; the first one starts at 0.
struct StepTimes {
  Duration first, steady;
};
StepTimes step_times(const PhysicalGraph& graph, const ToyNetwork& network = ToyNetwork()) {
  const Tape tape = testing::record_step(graph);
  const ToyCost cost;
  const std::vector<Duration> durations = entry_durations(tape, graph, cost);
  TapeOptions options;
  options.steps = 4;
  const TapeTimes times = evaluate(tape, graph, durations, cost, network, options);
  return {times.step_end[0], times.step_end[3] - times.step_end[2]};
}

TEST_CASE("a chain expands soundly under every schedule, number of stages and micro-batches") {
  for (const Schedule schedule : kSchedules)
    for (int stages = 1; stages <= 4; ++stages)
      for (std::int64_t micro_batches = 1; micro_batches <= 9; ++micro_batches) {
        CAPTURE(to_string(schedule));
        CAPTURE(stages);
        CAPTURE(micro_batches);
        ToyChain chain;
        chain.layers.assign(static_cast<std::size_t>(stages), 2);
        chain.micro_batches = micro_batches;
        check_sound(expand_toy(chain, with_schedule(schedule)));
      }
}

// Chains with everything that makes programs differ: groups, uneven and empty shards, copies, edges
// over several stages, host actors.
std::vector<ToyChain> rich_chains() {
  std::vector<ToyChain> chains;
  for (int variant = 0; variant < 32; ++variant) {
    ToyChain chain;
    chain.layers = variant % 2 == 0 ? std::vector<int>{2, 1, 3} : std::vector<int>{1, 3};
    chain.micro_batches = 1 + variant % 5;
    chain.dp = variant % 3 == 0 ? 1 : 2;
    chain.tp = variant % 4 < 2 ? 1 : 3;
    chain.hidden = variant % 8 < 4 ? 5 : 6;  // 5 columns on 3 devices: 2, 2, 1
    chain.batch = variant % 7 == 0 ? 1 : 4;  // one row on two replicas: one has none
    chain.gather = variant / 2 % 2 == 1;
    chain.cast = variant / 4 % 2 == 1;
    chain.tied = variant / 8 % 2 == 1;
    chain.skip = variant / 16 % 2 == 1;
    chain.host = variant % 5 < 3;
    chain.norm = variant % 3 == 1;
    chains.push_back(chain);
  }
  return chains;
}

TEST_CASE("chains with groups, uneven shards, copies, skips and host actors expand soundly") {
  const ToyNetwork network(3, 2);
  for (const ToyChain& chain : rich_chains())
    for (const Schedule schedule : kSchedules)
      for (const bool launch_groups : {false, true})
        for (const SlotLifetime lifetime : {SlotLifetime::kIssueOrder, SlotLifetime::kModelled}) {
          ExpandOptions options = with_schedule(schedule);
          options.launch_groups = launch_groups;
          // Late as often as early, and with either of the others.
          options.transfer_order = launch_groups == (chain.micro_batches % 2 == 0)
                                       ? TransferOrder::kLate
                                       : TransferOrder::kEarly;
          options.slot_lifetime = lifetime;
          check_sound(expand_toy(chain, options, network));
        }
}

TEST_CASE("checks on or off, the graph is the same") {
  for (const ToyChain& chain : rich_chains()) {
    ExpandOptions options = with_schedule(Schedule::kOneFOneB);
    const PhysicalGraph unchecked = expand_toy(chain, options);
    options.checks = true;
    CHECK(unchecked == expand_toy(chain, options));
  }
}

// --- time ----------------------------------------------------------------------------------------

ToyChain unit_chain(int stages, std::int64_t micro_batches) {
  ToyChain chain;
  chain.layers.assign(static_cast<std::size_t>(stages), 1);
  chain.micro_batches = micro_batches;
  return chain;
}

TEST_CASE("GPipe and 1F1B take (m + p - 1) (F + B + W), so their bubble is (p-1)/(m+p-1)") {
  for (const Schedule schedule : {Schedule::kGPipe, Schedule::kOneFOneB})
    for (int p = 1; p <= 4; ++p)
      for (std::int64_t m = 1; m <= 9; ++m) {
        CAPTURE(p);
        CAPTURE(m);
        ToyChain chain = unit_chain(p, m);
        // W is not on the way to the earlier stages: with a backward of B = 2 and no W the formula
        // is exact, with W apart it is an upper bound.
        chain.input_grad = {2};
        chain.weight_grad = {0};
        const StepTimes times = step_times(expand_toy(chain, with_schedule(schedule)));
        CHECK(times.first == Duration(3 * (m + p - 1)));
        chain.input_grad = {1};
        chain.weight_grad = {1};
        CHECK(step_times(expand_toy(chain, with_schedule(schedule))).first <=
              Duration(3 * (m + p - 1)));
      }
}

TEST_CASE("ZB-H1 with F = B = W takes 3 m + p - 1 from as many micro-batches as stages on") {
  for (int p = 1; p <= 4; ++p)
    for (std::int64_t m = p; m <= 9; ++m) {
      CAPTURE(p);
      CAPTURE(m);
      const PhysicalGraph graph =
          expand_toy(unit_chain(p, m), with_schedule(Schedule::kZeroBubbleH1));
      CHECK(step_times(graph).first == Duration(3 * m + p - 1));
    }
}

TEST_CASE("G42: four stages with two micro-batches end after 10 and hold 2, 2, 2, 1; one after 8") {
  ToyChain chain = unit_chain(4, 2);
  chain.weight_grad = {0};
  const PhysicalGraph two = expand_toy(chain, with_schedule(Schedule::kOneFOneB));
  CHECK(step_times(two).first == Duration(10));
  chain.micro_batches = 1;
  const PhysicalGraph one = expand_toy(chain, with_schedule(Schedule::kOneFOneB));
  CHECK(step_times(one).first == Duration(8));

  // What a layer saves for backward lives from F to the end of B and W.
  const std::vector<std::int32_t> alive = {2, 2, 2, 1};
  for (std::size_t stage = 0; stage < 4; ++stage) {
    CHECK(saved_registers(two, stage) == alive[stage]);
    CHECK(saved_registers(one, stage) == 1);
  }
}

TEST_CASE("G59: stage times 3, 5, 2 and four micro-batches take 23, with B twice F 23 1/3") {
  // In halves: F = B = 3, 5, 2 halves; 46 halves are 23.
  ToyChain chain;
  chain.layers = {1, 1, 1};
  chain.micro_batches = 4;
  chain.forward = chain.input_grad = {3, 5, 2};
  chain.weight_grad = {0};
  CHECK(step_times(expand_toy(chain, with_schedule(Schedule::kOneFOneB))).first == Duration(46));
  // In thirds: F = 3, 5, 2, B = 6, 10, 4 thirds; 70 thirds are 23 1/3.
  chain.input_grad = {6, 10, 4};
  CHECK(step_times(expand_toy(chain, with_schedule(Schedule::kOneFOneB))).first == Duration(70));
}

TEST_CASE("with modelled lifetimes the time of a step does not depend on the memory plan") {
  for (const Schedule schedule : kSchedules)
    for (int p = 1; p <= 4; ++p) {
      CAPTURE(p);
      CAPTURE(to_string(schedule));
      ExpandOptions options = with_schedule(schedule);
      options.slot_lifetime = SlotLifetime::kModelled;
      ToyChain chain = unit_chain(p, 5);
      const StepTimes planned = step_times(expand_toy(chain, options));
      options.plan_memory = false;
      const StepTimes apart = step_times(expand_toy(chain, options));
      CHECK(planned.first.value == apart.first.value);
      CHECK(planned.steady.value == apart.steady.value);
    }
}

TEST_CASE("modelled lifetimes never make a step slower than lives by issue order") {
  const ToyNetwork network(1, 1);
  for (const Schedule schedule : kSchedules)
    for (int p = 2; p <= 4; ++p)
      for (std::int64_t m = 1; m <= 9; ++m) {
        ToyChain chain = unit_chain(p, m);
        chain.forward = chain.input_grad = chain.weight_grad = {4};
        ExpandOptions options = with_schedule(schedule);
        const StepTimes by_order = step_times(expand_toy(chain, options, network), network);
        options.slot_lifetime = SlotLifetime::kModelled;
        const StepTimes modelled = step_times(expand_toy(chain, options, network), network);
        options.plan_memory = false;
        const StepTimes apart = step_times(expand_toy(chain, options, network), network);
        CAPTURE(to_string(schedule));
        CAPTURE(p);
        CAPTURE(m);
        CHECK(modelled.first <= by_order.first);
        CHECK(apart.first <= modelled.first);
      }
}

// --- counts --------------------------------------------------------------------------------------

TEST_CASE("one register less of any frame and the dry run refuses the order") {
  std::int64_t tried = 0;
  for (const ToyChain& chain : rich_chains())
    for (const Schedule schedule : kSchedules) {
      if (chain.micro_batches < 2) continue;
      // In modelled time a register is free when its reader is over, not when it is issued.
      ExpandOptions options = with_schedule(schedule);
      options.slot_lifetime = SlotLifetime::kIssueOrder;
      const PhysicalGraph graph = expand_toy(chain, options, ToyNetwork(3, 2));
      for (const ProgramId p : graph.programs.keys())
        for (std::size_t i = 0; i < graph.programs[p].instances.size(); ++i) {
          const Instance& instance = graph.programs[p].instances[InstanceId(i)];
          // Host actors get one more than they need.
          const Block& block = graph.block_of(instance);
          const bool is_host = block.actors.front().queue == QueueRole::kHost;
          for (std::size_t f = 0; f < instance.frames.size() && !is_host; ++f) {
            if (instance.frames[f].num_registers < 2 || tried > 400) continue;
            PhysicalGraph tight = graph;
            --tight.programs[p].instances[InstanceId(i)].frames[f].num_registers;
            CAPTURE(instance.name);
            CHECK_THROWS_AS(dry_run(tight), Error);
            ++tried;
          }
        }
    }
  CHECK(tried > 100);
}

TEST_CASE("host actors can work one micro-batch ahead") {
  ToyChain chain = unit_chain(3, 4);
  chain.host = true;
  const PhysicalGraph graph = expand_toy(chain, with_schedule(Schedule::kOneFOneB));
  // Tokens are read by F and again by W, min(4, 3 - 0) = 3 micro-batches later, and one is ahead.
  CHECK(instance_named(graph.programs[ProgramId(0)], "tokens.load").frames.front().num_registers ==
        4);
}

// --- classes -------------------------------------------------------------------------------------

TEST_CASE("ranks with equal shapes share a program, ranks with other shapes have their own") {
  ToyChain chain = unit_chain(2, 2);
  chain.tp = 3;
  chain.hidden = 6;
  CHECK(expand_toy(chain).programs.size() == 2);
  chain.hidden = 500;  // columns 167, 167, 166
  const PhysicalGraph graph = expand_toy(chain);
  REQUIRE(graph.programs.size() == 4);
  CHECK(graph.programs[ProgramId(0)].order == graph.programs[ProgramId(1)].order);
  CHECK(graph.ranks[Rank(0)].program == graph.ranks[Rank(1)].program);
  CHECK(graph.ranks[Rank(2)].program != graph.ranks[Rank(1)].program);
  CHECK(graph.programs[ProgramId(1)].arena.size == graph.programs[ProgramId(0)].arena.size);
  ExpandOptions options;
  options.symmetric = false;  // each class makes room for its own parts alone
  const PhysicalGraph apart = expand_toy(chain, options);
  CHECK(apart.programs[ProgramId(0)].arena.lower_bound ==
        graph.programs[ProgramId(0)].arena.lower_bound);
  CHECK(apart.programs[ProgramId(1)].arena.lower_bound <
        apart.programs[ProgramId(0)].arena.lower_bound);
}

TEST_CASE("layers of a stage share their blocks") {
  const auto num_blocks = [](int layers) {
    ToyChain chain = unit_chain(1, 2);
    chain.layers = {layers};
    chain.dp = chain.tp = 2;
    return expand_toy(chain).blocks.size();
  };
  CHECK(num_blocks(12) == num_blocks(6));
}

TEST_CASE("two stages on one device are refused by name") {
  StagedGraph staged = toy_chain(unit_chain(2, 1));
  staged.placements[1] = staged.placements[0];
  CHECK_THROWS_WITH_AS(
      expand(staged, testing::toy_operators(), ToyCost(), ToyNetwork(), ExpandOptions()),
      doctest::Contains("stage"), Error);
}

// --- overlap -------------------------------------------------------------------------------------

// Position in the order of the first run of an instance's act whose first actor has this name.
std::size_t position(const PhysicalGraph& graph, const RankProgram& program,
                     const std::string& instance, const std::string& actor, std::int32_t act) {
  for (const RunId r : program.order.keys()) {
    const Run& run = program.order[r];
    const Instance& owner = program.instances[run.instance];
    const std::string& name =
        graph.block_of(owner).actors[static_cast<std::size_t>(run.first_actor)].name;
    if (owner.name == instance && run.act == act && name == actor) return r.index();
  }
  FAIL("no such run: " << instance << " " << actor);
  return 0;
}

TEST_CASE("the gradient of a layer is reduced while the layers before it go backward") {
  ToyChain chain = unit_chain(1, 3);
  chain.layers = {3};
  chain.dp = 2;
  ExpandOptions options;
  options.buckets = {.bytes = Bytes(0), .operations = 0};  // which wait for each other
  const PhysicalGraph graph = expand_toy(chain, options);
  const RankProgram& program = graph.programs[ProgramId(0)];
  for (const int layer : {2, 1}) {
    const std::string own = "layer" + std::to_string(layer);
    const std::string before = "layer" + std::to_string(layer - 1);
    const std::size_t reduced = position(graph, program, own + ".reduce", "dw.all_reduce", 0);
    CHECK(position(graph, program, own + ".weight_grad", "w", 2) < reduced);
    CHECK(reduced < position(graph, program, before + ".input_grad", "b", 2));
  }
}

TEST_CASE("weight gradients run while backward waits for a collective") {
  ToyChain chain = unit_chain(1, 1);
  chain.layers = {3};
  chain.tp = 2;
  chain.norm = true;
  const ToyNetwork network(0, 1);
  // Forward: f and an all-reduce, three times: 6. Backward: b, an all-reduce with w beside it, and
  // what comes after the all-reduce (no time), three times: 6. With w behind the end of b: 9.
  CHECK(step_times(expand_toy(chain, {}, network), network).first == Duration(12));
}

TEST_CASE("a reduction does not stand before a collective that an earlier stage waits for") {
  // Two stages; on the second, b of two layers is followed by an all-reduce over tp. A reduction
  // over dp takes as long as everything else together, and fits nowhere before the last of them.
  ToyChain chain = unit_chain(2, 1);
  chain.layers = {1, 2};
  chain.dp = chain.tp = 2;
  const PhysicalGraph graph = expand_toy(chain, {}, ToyNetwork(0, 100));
  const RankProgram& program = graph.programs[ProgramId(1)];
  const std::size_t last = position(graph, program, "layer1.input_grad", "dx.all_reduce", 0);
  CHECK(last < position(graph, program, "layer2.reduce", "dw.all_reduce", 0));
  CHECK(last < position(graph, program, "layer1.reduce", "dw.all_reduce", 0));
}

TEST_CASE("parameters are gathered one layer ahead on the first stage, all before on the others") {
  ToyChain chain = unit_chain(2, 2);
  chain.layers = {3, 3};
  chain.dp = 2;
  chain.gather = true;
  const ToyNetwork network(0, 1);
  const PhysicalGraph graph = expand_toy(chain, {}, network);
  const auto gathered = [&](const RankProgram& program, int layer) {
    return position(graph, program, "layer" + std::to_string(layer) + ".parameters", "w.all_gather",
                    0);
  };
  const auto forward = [&](const RankProgram& program, int layer) {
    return position(graph, program, "layer" + std::to_string(layer) + ".forward", "f", 0);
  };
  const RankProgram& first = graph.programs[ProgramId(0)];
  CHECK(gathered(first, 1) < forward(first, 0));
  CHECK(forward(first, 0) < gathered(first, 2));
  CHECK(gathered(first, 2) < forward(first, 1));
  const RankProgram& second = graph.programs[ProgramId(1)];
  CHECK(gathered(second, 5) < forward(second, 3));
}

TEST_CASE("a copy of a gathered copy keeps no gather from going one layer ahead") {
  ToyChain chain = unit_chain(1, 2);
  chain.layers = {4};
  chain.dp = 2;
  chain.gather = chain.recast = true;
  ExpandOptions options;
  options.buckets = {.bytes = Bytes(0), .operations = 0};
  const PhysicalGraph graph = expand_toy(chain, options, ToyNetwork(0, 1));
  check_sound(graph);
  const RankProgram& program = graph.programs[ProgramId(0)];
  const auto parameters = [&](int layer, const std::string& actor) {
    return position(graph, program, "layer" + std::to_string(layer) + ".parameters", actor, 0);
  };
  const auto forward = [&](int layer) {
    return position(graph, program, "layer" + std::to_string(layer) + ".forward", "f", 0);
  };
  CHECK(forward(0) < parameters(2, "w.all_gather"));
  CHECK(parameters(2, "w.all_gather") < forward(1));
  CHECK(forward(1) < parameters(3, "again"));
  CHECK(parameters(3, "again") < forward(3));
}

TEST_CASE("opposite transfers that follow each other start together when asked for") {
  ToyChain chain = unit_chain(3, 6);
  ExpandOptions options = with_schedule(Schedule::kOneFOneB);
  options.launch_groups = true;
  chain.weight_grad = {0};
  const PhysicalGraph graph = expand_toy(chain, options);
  const auto grouped = [](const RankProgram& program) {
    return std::count_if(program.order.begin(), program.order.end(),
                         [](const Run& run) { return run.launch_group.is_valid(); });
  };
  CHECK(grouped(graph.programs[ProgramId(1)]) > 0);
  check_sound(graph);
  options.launch_groups = false;
  CHECK(grouped(expand_toy(chain, options).programs[ProgramId(1)]) == 0);
}

}  // namespace
}  // namespace sextant::expand_test
