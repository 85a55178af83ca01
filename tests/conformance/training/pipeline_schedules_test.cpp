// Pipelines of equal and unequal layers, compiled and run on devices that only tell the time:
// makespans, bubbles and activations in flight are what the papers and a sheet of paper say.
// Nothing here asks the schedule; everything is read off what the devices did.
#include "actor/protocol/dry_run.h"
#include "compiler/expand/expand.h"
#include "compiler/memory/lifetimes.h"
#include "compiler/strategy/schedule.h"
#include "core/base/check.h"
#include "simulator/modes/simulate.h"
#include "tests/compiler/toy_chain.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace sextant::pipeline_schedules_test {
namespace {

using testing::toy_chain;
using testing::ToyChain;
using testing::ToyCost;
using testing::ToyNetwork;

struct Pipeline {
  Schedule schedule = Schedule::kOneFOneB;
  int stages = 1;
  std::int64_t micro_batches = 1;
  int chunks = 1;
};

// One layer per virtual stage; F, B and W of a layer take these times.
ToyChain chain_of(const Pipeline& pipeline, std::int64_t f, std::int64_t b, std::int64_t w) {
  ToyChain chain;
  chain.layers.assign(static_cast<std::size_t>(pipeline.stages * pipeline.chunks), 1);
  chain.chunks = pipeline.chunks;
  chain.v_shape = pipeline.schedule == Schedule::kZeroBubbleV;
  chain.micro_batches = pipeline.micro_batches;
  chain.forward = {f};
  chain.input_grad = {b};
  chain.weight_grad = {w};
  return chain;
}

PhysicalGraph compile_chain(const ToyChain& chain, ExpandOptions options,
                            const ToyNetwork& network = ToyNetwork()) {
  return expand(toy_chain(chain), testing::toy_operators(), ToyCost(), network, options);
}
PhysicalGraph compile_chain(const ToyChain& chain, Schedule schedule,
                            const ToyNetwork& network = ToyNetwork()) {
  ExpandOptions options;
  options.schedule = schedule;
  return compile_chain(chain, options, network);
}

// The first step alone, launch by launch.
Simulation first_step(const PhysicalGraph& graph, const ToyNetwork& network = ToyNetwork()) {
  SimulateOptions options;
  options.mode = SimulationMode::kStep;
  options.steps = 1;
  options.keep_slices = true;
  return simulate(graph, ToyCost(), network, options);
}

std::int64_t makespan(const PhysicalGraph& graph, const ToyNetwork& network = ToyNetwork()) {
  return first_step(graph, network).step_time.value;
}

// All (p, m, v) with which a schedule is tried.
std::vector<Pipeline> pipelines_of(Schedule schedule) {
  std::vector<Pipeline> pipelines;
  const int chunks = schedule == Schedule::kZeroBubbleV ? 2 : 1;
  for (int p = 2; p <= 6; ++p)
    for (const std::int64_t m : {1, 2, 3, 5, 6, 9, 12}) {
      if (schedule != Schedule::kInterleaved) pipelines.push_back({schedule, p, m, chunks});
      for (int v = 2; schedule == Schedule::kInterleaved && m % p == 0 && v <= 3; ++v)
        pipelines.push_back({schedule, p, m, v});
    }
  return pipelines;
}

std::string text_of(const Pipeline& pipeline) {
  return fmt::format("{} p={} m={} v={}", to_string(pipeline.schedule), pipeline.stages,
                     pipeline.micro_batches, pipeline.chunks);
}

TEST_CASE("GPipe and 1F1B take (m + p - 1)(F + B): their bubble is (p-1)/(m+p-1)") {
  for (const Schedule schedule : {Schedule::kGPipe, Schedule::kOneFOneB})
    for (const Pipeline& pipeline : pipelines_of(schedule)) {
      CAPTURE(text_of(pipeline));
      CHECK(makespan(compile_chain(chain_of(pipeline, 1, 2, 0), schedule)) ==
            3 * (pipeline.micro_batches + pipeline.stages - 1));
    }
}

// The work of a stage is v m (F + B), so the bubble is (p-1)/(vm+p-1).
TEST_CASE("interleaved takes (v m + p - 1)(F + B) of one chunk") {
  for (const Pipeline& pipeline : pipelines_of(Schedule::kInterleaved)) {
    CAPTURE(text_of(pipeline));
    const std::int64_t cells = pipeline.chunks * pipeline.micro_batches + pipeline.stages - 1;
    CHECK(makespan(compile_chain(chain_of(pipeline, 1, 2, 0), pipeline.schedule)) == 3 * cells);
    CHECK(makespan(compile_chain(chain_of(pipeline, 2, 3, 0), pipeline.schedule)) == 5 * cells);
  }
}

// F = B = W. ZB-H1 as published: the work 3m and p - 1 of bubble, from m = p on. ZB-V in units of a
// chunk: the work 6m and p - 1; with fewer micro-batches it is the way of the last one.
TEST_CASE("ZB-H1 takes 3m + p - 1 units, ZB-V max(6m + p - 1, 4m + 4p - 2)") {
  for (const Pipeline& pipeline : pipelines_of(Schedule::kZeroBubbleH1)) {
    if (pipeline.micro_batches < pipeline.stages) continue;
    CAPTURE(text_of(pipeline));
    CHECK(makespan(compile_chain(chain_of(pipeline, 1, 1, 1), pipeline.schedule)) ==
          3 * pipeline.micro_batches + pipeline.stages - 1);
  }
  for (const Pipeline& pipeline : pipelines_of(Schedule::kZeroBubbleV)) {
    CAPTURE(text_of(pipeline));
    const std::int64_t m = pipeline.micro_batches, p = pipeline.stages;
    CHECK(makespan(compile_chain(chain_of(pipeline, 1, 1, 1), pipeline.schedule)) ==
          std::max(6 * m + p - 1, 4 * m + 4 * p - 2));
  }
}

TEST_CASE("no stage of ZB-V waits between its first cell and its last") {
  const Pipeline pipeline{Schedule::kZeroBubbleV, 4, 9, 2};
  const Simulation step = first_step(compile_chain(chain_of(pipeline, 1, 1, 1), pipeline.schedule));
  for (int stage = 0; stage < 4; ++stage) {
    std::int64_t begin = 1'000'000, end = 0;
    for (const TraceSlice& slice : step.slices)
      if (slice.rank.value == stage && slice.queue == QueueRole::kCompute &&
          slice.end > slice.begin) {
        begin = std::min(begin, slice.begin.value);
        end = std::max(end, slice.end.value);
      }
    CHECK(begin == stage);
    CHECK(end - begin == 6 * 9);
  }
}

// --- in flight -----------------------------------------------------------------------------------

// Most contents of registers of this name that a stage holds at one time: written by a run that has
// begun, still to be read by one that is not over. The runs' times are those of the devices.
std::int64_t most_in_flight(const PhysicalGraph& graph, const Simulation& step, int stage,
                            const std::string& name) {
  const RankProgram& program = graph.programs[graph.ranks[Rank(stage)].program];
  const Lifetimes lifetimes = find_lifetimes(graph, program);
  std::map<std::pair<std::string, std::int32_t>, std::pair<Time, Time>> times;  // of a run
  for (const TraceSlice& slice : step.slices)
    if (slice.rank.value == stage)
      times.insert({{slice.name, slice.act}, {slice.begin, slice.end}});
  const auto times_of = [&](RunId run) {
    const Run& entry = program.order[run];
    const Instance& instance = program.instances[entry.instance];
    const Block& block = graph.block_of(instance);
    const auto actor = [&](std::int32_t a) {
      return block.actors[static_cast<std::size_t>(a)].name;
    };
    std::string text = instance.name + "[" + actor(entry.first_actor);
    if (entry.num_actors > 1) text += " .. " + actor(entry.first_actor + entry.num_actors - 1);
    const auto found = times.find({text + "]", entry.act});
    REQUIRE(found != times.end());
    return found->second;
  };
  std::map<Time, std::int64_t> change;
  for (const ContentLife& life : lifetimes.contents) {
    const ProgramFrame& frame = lifetimes.frames[life.frame];
    const Block& block = graph.block_of(program.instances[frame.instance]);
    const bool wanted = std::any_of(
        block.registers.begin(), block.registers.end(),
        [&](const Register& reg) { return reg.frame == frame.index && reg.name == name; });
    if (!wanted || !life.is_used()) continue;
    ++change[times_of(life.first_run).first];
    --change[times_of(life.last_run).second];
  }
  std::int64_t alive = 0, most = 0;
  for (const auto& [time, by] : change) most = std::max(most, alive += by);
  return most;
}

std::vector<std::int64_t> saved_in_flight(const Pipeline& pipeline, std::int64_t w) {
  const PhysicalGraph graph = compile_chain(chain_of(pipeline, 1, 1, w), pipeline.schedule);
  const Simulation step = first_step(graph);
  std::vector<std::int64_t> most;
  for (int stage = 0; stage < pipeline.stages; ++stage)
    most.push_back(most_in_flight(graph, step, stage, "saved"));
  return most;
}

TEST_CASE("activations in flight: GPipe m, 1F1B min(m, p - stage), interleaved warm-up plus one") {
  for (const Schedule schedule : {Schedule::kGPipe, Schedule::kOneFOneB, Schedule::kInterleaved})
    for (const Pipeline& pipeline : pipelines_of(schedule)) {
      CAPTURE(text_of(pipeline));
      const std::vector<std::int64_t> found = saved_in_flight(pipeline, 0);
      const std::int64_t m = pipeline.micro_batches, p = pipeline.stages, v = pipeline.chunks;
      for (std::int64_t r = 0; r < p; ++r) {
        const std::int64_t expected = schedule == Schedule::kGPipe ? m
                                      : schedule == Schedule::kOneFOneB
                                          ? std::min(m, p - r)
                                          : std::min(m * v, 2 * (p - r - 1) + (v - 1) * p + 1);
        CHECK(found[static_cast<std::size_t>(r)] == expected);
      }
    }
}

TEST_CASE("what W needs is in flight until W: at most p in ZB-H1, 2p chunks in ZB-V") {
  for (const Pipeline& pipeline : pipelines_of(Schedule::kZeroBubbleH1)) {
    CAPTURE(text_of(pipeline));
    for (const std::int64_t found : saved_in_flight(pipeline, 1))
      CHECK(found <= std::min<std::int64_t>(pipeline.stages, pipeline.micro_batches));
  }
  for (const Pipeline& pipeline : pipelines_of(Schedule::kZeroBubbleV)) {
    CAPTURE(text_of(pipeline));
    for (const std::int64_t found : saved_in_flight(pipeline, 1)) {
      CHECK(found <= 2 * std::min<std::int64_t>(pipeline.stages, pipeline.micro_batches));
      if (pipeline.micro_batches >= 2 * pipeline.stages - 1) CHECK(found == 2 * pipeline.stages);
    }
  }
}

// Stage s of ZB-H1 runs W s micro-batches after B, so s + 1 gradients of its output wait for W.
TEST_CASE("the gradient of an output lives from its arrival, before B, to W") {
  const Pipeline pipeline{Schedule::kZeroBubbleH1, 4, 9, 1};
  const PhysicalGraph graph = compile_chain(chain_of(pipeline, 1, 1, 1), pipeline.schedule);
  const Simulation step = first_step(graph);
  for (int stage = 0; stage + 1 < pipeline.stages; ++stage) {
    const std::int64_t alive = most_in_flight(graph, step, stage, fmt::format("dx.at{}", stage));
    CHECK(alive >= stage + 1);
    CHECK(alive <= stage + 2);  // the next one has arrived already
  }
}

// The last of p stages reads the first one's output: it comes p - 1 stages later than it is made.
TEST_CASE(
    "a skip edge has as many buffers as it crosses stages, where it is made or where it goes") {
  for (int p = 2; p <= 6; ++p) {
    CAPTURE(p);
    ToyChain chain = chain_of({Schedule::kOneFOneB, p, 12, 1}, 1, 1, 0);
    chain.skip = true;
    const PhysicalGraph graph = compile_chain(chain, Schedule::kOneFOneB);
    const Simulation step = first_step(graph);
    const std::string arrived = fmt::format("y.at{}", p - 1);
    const std::int64_t buffers = most_in_flight(graph, step, p - 1, arrived);
    // On the last stage both its own input and the skip have this name when p = 2: one tensor.
    CHECK(buffers >= p - 1);
    CHECK(buffers <= p + 1);
  }
}

// --- what does not depend on formulas ------------------------------------------------------------

std::vector<ToyChain> uneven_chains() {
  std::vector<ToyChain> chains;
  for (int variant = 0; variant < 12; ++variant) {
    ToyChain chain;
    chain.layers = {2, 1, 3, 1, 2, 1};
    chain.chunks = 2;
    chain.v_shape = variant % 2 == 1;
    chain.micro_batches = variant % 2 == 1 ? 1 + variant : 3 + variant % 3 * 3;
    chain.forward = {3, 5, 2};
    chain.input_grad = {4, 6, 3};
    chain.weight_grad = {2, 5, 1};
    chain.dp = 1 + variant / 3 % 2;
    chain.tp = 1 + variant / 2 % 2;
    chain.hidden = 5;
    chain.gather = variant % 3 == 0;
    chain.cast = variant % 4 == 1;
    chain.tied = variant % 3 == 1;
    chain.skip = variant % 5 == 0;
    chain.host = variant % 4 < 2;
    chain.norm = variant % 4 == 2;
    chains.push_back(chain);
  }
  return chains;
}

TEST_CASE("chunked chains of uneven stages run, from the tape as launch by launch, either order") {
  const ToyNetwork network(3, 2);
  for (const ToyChain& chain : uneven_chains())
    for (const TransferOrder order : {TransferOrder::kEarly, TransferOrder::kLate}) {
      ExpandOptions options;
      options.schedule = chain.v_shape ? Schedule::kZeroBubbleV : Schedule::kInterleaved;
      options.transfer_order = order;
      const PhysicalGraph graph = compile_chain(chain, options, network);
      CHECK_NOTHROW(dry_run(graph, RankScope::kAllRanks));
      SimulateOptions tape;
      tape.steps = 1;
      const Simulation stepped = first_step(graph, network);
      CHECK(simulate(graph, ToyCost(), network, tape).step_time == stepped.step_time);
    }
}

TEST_CASE(
    "chunks of a stage share slots: p=8 m=96 v=6 needs 55 chunk buffers, rings would take 72") {
  const Pipeline pipeline{Schedule::kInterleaved, 8, 96, 6};
  const PhysicalGraph graph = compile_chain(chain_of(pipeline, 1, 2, 0), pipeline.schedule);
  const Simulation step = first_step(graph);
  CHECK(most_in_flight(graph, step, 0, "saved") == 55);
  std::int64_t rings = 0;
  const RankProgram& program = graph.programs[graph.ranks[Rank(0)].program];
  for (const Instance& instance : program.instances)
    for (const Register& reg : graph.block_of(instance).registers)
      if (reg.name == "saved")
        rings += instance.frames[static_cast<std::size_t>(reg.frame)].num_registers;
  CHECK(rings == 72);
}

// What a transfer brings waits less where it goes and longer where it was made, so not every stage
// of every pipeline gains; all together do. A slow last stage, so that something waits at all.
TEST_CASE("late transfers leave fewer received values in flight and save memory") {
  Bytes early_bytes, late_bytes;
  std::int64_t fewer = 0, more = 0;  // more: where the wait for a transfer has moved the cells
  const ToyNetwork network(1, 1);
  for (const Schedule schedule : {Schedule::kGPipe, Schedule::kOneFOneB, Schedule::kInterleaved,
                                  Schedule::kZeroBubbleH1, Schedule::kZeroBubbleV})
    for (const Pipeline& pipeline : pipelines_of(schedule)) {
      if (pipeline.stages > 4) continue;
      CAPTURE(text_of(pipeline));
      ToyChain chain = chain_of(pipeline, 1, 1, 1);
      chain.forward = {1, 1, 1, 4};
      ExpandOptions options;
      options.schedule = schedule;
      const PhysicalGraph early = compile_chain(chain, options, network);
      options.transfer_order = TransferOrder::kLate;
      const PhysicalGraph late = compile_chain(chain, options, network);
      const Simulation early_step = first_step(early, network);
      const Simulation late_step = first_step(late, network);
      for (int stage = 0; stage < pipeline.stages; ++stage)
        for (const char* value : {"y", "dx"}) {
          const std::string name = fmt::format("{}.at{}", value, stage);
          const std::int64_t before = most_in_flight(early, early_step, stage, name);
          const std::int64_t after = most_in_flight(late, late_step, stage, name);
          fewer += std::max<std::int64_t>(before - after, 0);
          more += std::max<std::int64_t>(after - before, 0);
        }
      for (const RankProgram& program : early.programs) early_bytes += program.arena.size;
      for (const RankProgram& program : late.programs) late_bytes += program.arena.size;
    }
  CHECK(fewer > 10 * more);
  CHECK(late_bytes < early_bytes);
}

}  // namespace
}  // namespace sextant::pipeline_schedules_test
