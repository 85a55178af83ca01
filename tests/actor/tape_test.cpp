// The tape against launch-by-launch stepping, to the picosecond; and folded against all ranks.
#include "actor/tapes/tape.h"

#include "actor/protocol/program_waits.h"
#include "actor/runtime.h"
#include "actor/tapes/flat_tape.h"
#include "actor/tapes/jitter.h"
#include "actor/tapes/launch_time.h"
#include "core/base/error.h"
#include "tests/support/graph_builder.h"
#include "tests/support/one_thread.h"
#include "tests/support/pipeline_graph.h"
#include "tests/support/recorded_step.h"
#include "tests/support/step_device.h"

#include <doctest/doctest.h>

#include <cmath>

namespace sextant::tape_test {
using namespace testing;

namespace {

// Compute runs cost by what they do; launches cost something too.
class TestCost : public CostModel {
 public:
  explicit TestCost(std::int64_t launch_cost) : launch_cost_(launch_cost) {}
  Duration duration(const Work& work) const override {
    return Duration(static_cast<std::int64_t>(work.flops));
  }
  Duration launch_cost() const override { return Duration(launch_cost_); }

 private:
  std::int64_t launch_cost_;
};

// All members are done when the last has come, plus a time that depends on the primitive.
class EqualNetwork : public NetworkModel {
 public:
  void complete(const CollectiveCost& cost, std::span<const Time> arrivals,
                std::span<Time> done) const override {
    Time last;
    for (const Time arrival : arrivals) last = std::max(last, arrival);
    std::fill(done.begin(), done.end(), last + duration(cost));
  }
  Duration duration(const CollectiveCost& cost) const override {
    return Duration(500 + 131 * static_cast<std::int64_t>(cost.communication->primitive));
  }
};

// A ring recurrence: who is done when depends on all arrivals and on the place in the group.
class RingNetwork : public NetworkModel {
 public:
  void complete(const CollectiveCost& cost, std::span<const Time> arrivals,
                std::span<Time> done) const override {
    const std::size_t n = arrivals.size();
    std::vector<Time> at(arrivals.begin(), arrivals.end());
    for (std::size_t hop = 0; hop + 1 < n; ++hop) {
      std::vector<Time> next(n);
      for (std::size_t i = 0; i < n; ++i) {
        next[i] = std::max(at[i], at[(i + n - 1) % n]) +
                  Duration(97 + static_cast<std::int64_t>(cost.communication->primitive));
      }
      at = next;
    }
    std::copy(at.begin(), at.end(), done.begin());
  }
  Duration duration(const CollectiveCost&) const override { return Duration(97); }
};

// Durations that differ from actor to actor, so that few things happen at once by chance.
void give_work(PhysicalGraph& graph) {
  std::int64_t next = 1009;
  for (Block& block : graph.blocks) {
    for (Actor& actor : block.actors) {
      if (!actor.communication) actor.work.flops = static_cast<double>(next);
      next = next * 16807 % 7919 + 300;
    }
  }
}

Duration run_duration(const PhysicalGraph& graph, const CostModel& cost, Rank rank, RunId id) {
  const RankProgram& program = graph.program_of(rank);
  const Run& run = program.order[id];
  const Block& block = graph.block_of(program.instances[run.instance]);
  Duration total;
  for (std::int32_t a = 0; a < run.num_actors; ++a) {
    total += cost.duration(block.actors[static_cast<std::size_t>(run.first_actor + a)].work);
  }
  return total;
}

void check_equal(const PhysicalGraph& graph, const NetworkModel& network, const CostModel& cost,
                 const TapeOptions& options) {
  StepNetwork step_network(graph, network);
  StepOptions step_options{options.steps, options.window, options.run_ahead_steps,
                           cost.launch_cost()};
  const SteppedRun stepped = run_stepped(
      graph, step_network,
      [&](Rank rank, RunId run, std::int64_t step) {
        return jittered(run_duration(graph, cost, rank, run), options.jitter, options.seed, rank,
                        run, step);
      },
      step_options);
  const Tape tape = record_all_ranks(graph);
  const TapeTimes times =
      evaluate(tape, graph, entry_durations(tape, graph, cost), cost, network, options);
  REQUIRE(times.step_end == stepped.step_end);
  for (std::size_t e = 0; e < tape.entries.size(); ++e) {
    const TapeEntry& entry = tape.entries[e];
    const auto& slice = stepped.devices[entry.rank.index()].slice_of(entry.run, options.steps - 1);
    REQUIRE(times.begin[e] == slice.begin);
    REQUIRE(times.end[e] == slice.end);
  }
}

std::vector<PipelineSpec> pipelines() {
  std::vector<PipelineSpec> specs;
  for (const PipelineSchedule schedule :
       {PipelineSchedule::kGPipe, PipelineSchedule::kOneFOneB, PipelineSchedule::kZeroBubble}) {
    for (const bool groups : {false, true}) {
      for (const int replicas : {1, 2}) {
        PipelineSpec spec;
        spec.stages = 4 / replicas;
        spec.replicas = replicas;
        spec.micro_batches = 7;
        spec.schedule = schedule;
        spec.launch_groups = groups;
        spec.host_actors = groups;
        specs.push_back(spec);
      }
    }
  }
  return specs;
}

}  // namespace

TEST_CASE("tape equals step to the picosecond, with jitter, groups, windows and launch cost" *
          doctest::skip(kSkipsOneThread)) {
  for (const PipelineSpec& spec : pipelines()) {
    PhysicalGraph graph = pipeline_graph(spec);
    give_work(graph);
    for (const std::int64_t window : {1, 3, 256}) {
      for (const double jitter : {0.0, 0.2}) {
        TapeOptions options;
        options.steps = 5;
        options.window = window;
        options.jitter = jitter;
        options.seed = 42;
        options.run_ahead_steps = window == 3 ? 1 : 2;
        check_equal(graph, EqualNetwork(), TestCost(0), options);
        check_equal(graph, RingNetwork(), TestCost(211), options);
      }
    }
  }
}

TEST_CASE("waits from positions in the order are those of the stepped protocol") {
  std::size_t programs = 0;
  for (const PipelineSpec& spec : pipelines()) {
    const PhysicalGraph graph = pipeline_graph(spec);
    for (const ProgramId p : graph.programs.keys()) {
      const ProgramTables tables(graph, p);
      const std::optional<ProgramWaits> direct = direct_waits(tables);
      REQUIRE(direct.has_value());
      CHECK(*direct == stepped_waits(tables));
      ++programs;
    }
  }
  CHECK(programs >= 24);
}

TEST_CASE("a step that repeats the last one is not evaluated, and its times are the same" *
          doctest::skip(kSkipsOneThread)) {
  for (const PipelineSpec& spec : pipelines()) {
    PhysicalGraph graph = pipeline_graph(spec);
    give_work(graph);
    for (const std::int64_t run_ahead : {1, 2, 3, 4})
      for (const std::int64_t window : {2, 9, 256}) {
        TapeOptions options;
        options.steps = 14;
        options.window = window;
        options.run_ahead_steps = run_ahead;
        check_equal(graph, EqualNetwork(), TestCost(211), options);
      }
  }
}

TEST_CASE("waits added to a flat tape are waited for as those of a tape that has them") {
  const TestCost cost(211);
  std::size_t later = 0;
  for (const PipelineSpec& spec : pipelines()) {
    PhysicalGraph graph = pipeline_graph(spec);
    give_work(graph);
    const Tape whole = record_all_ranks(graph);
    // Every other wait is taken out, and added again.
    Tape tape = whole;
    tape.waits.clear();
    std::vector<AddedWait> added;
    for (std::size_t e = 0; e < tape.entries.size(); ++e) {
      TapeEntry& entry = tape.entries[e];
      entry.first_wait = static_cast<std::int32_t>(tape.waits.size());
      entry.num_waits = 0;
      for (std::int32_t w = 0; w < whole.entries[e].num_waits; ++w) {
        const std::int32_t number = whole.entries[e].first_wait + w;
        const TapeWait& wait = whole.waits[static_cast<std::size_t>(number)];
        if (number % 2 == 0) {
          added.push_back({static_cast<std::int32_t>(e), wait});
          continue;
        }
        tape.waits.push_back(wait);
        ++entry.num_waits;
      }
    }
    const std::vector<Duration> durations = entry_durations(whole, graph, cost);
    TapeOptions options;
    options.steps = 5;
    for (const std::int64_t window : {2, 256}) {
      options.window = window;
      const auto times_of = [&](const FlatTape& flat) {
        return evaluate(flat, durations, cost, EqualNetwork(), options);
      };
      const TapeTimes expected = times_of(FlatTape(whole));
      FlatTape flat(tape);
      later += times_of(flat).step_end != expected.step_end ? 1 : 0;
      flat.add(added);
      const TapeTimes found = times_of(flat);
      CHECK(found.begin == expected.begin);
      CHECK(found.end == expected.end);
      CHECK(found.step_end == expected.step_end);
    }
  }
  CHECK(later > 0);
}

TEST_CASE("jitter of many launches at once is that of each") {
  std::vector<Duration> durations;
  std::vector<std::int32_t> ranks, runs;
  for (std::int32_t i = 0; i < 1000; ++i) {
    durations.emplace_back((std::int64_t{1} << (i % 50)) + i % 7);
    ranks.push_back(i * 7919 % 4096);
    runs.push_back(i * 31);
  }
  for (const double jitter : {0.0, 1e-3, 0.1, 0.5, 1.0}) {
    std::vector<Duration> at_once(durations.size());
    const std::int64_t step = std::int64_t{5} << 33;
    jitter_durations(durations, ranks, runs, jitter, 0x123456789ABC, step, at_once);
    for (std::size_t i = 0; i < durations.size(); ++i)
      REQUIRE(at_once[i] ==
              jittered(durations[i], jitter, 0x123456789ABC, Rank(ranks[i]), RunId(runs[i]), step));
  }
}

TEST_CASE("folded equals unfolded on eight ranks, to the picosecond") {
  for (const PipelineSchedule schedule :
       {PipelineSchedule::kGPipe, PipelineSchedule::kOneFOneB, PipelineSchedule::kZeroBubble}) {
    PhysicalGraph graph =
        pipeline_graph({.stages = 4, .replicas = 2, .micro_batches = 6, .schedule = schedule});
    give_work(graph);
    const TestCost cost(50);
    const EqualNetwork network;
    const Tape folded = record_step(graph);
    const Tape all = record_all_ranks(graph);
    CHECK(folded.ranks.size() == 4);
    CHECK(all.ranks.size() == 8);
    const TapeTimes folded_times =
        evaluate(folded, graph, entry_durations(folded, graph, cost), cost, network);
    const TapeTimes all_times =
        evaluate(all, graph, entry_durations(all, graph, cost), cost, network);
    CHECK(folded_times.step_end == all_times.step_end);
    for (std::size_t e = 0; e < all.entries.size(); ++e) {
      for (std::size_t f = 0; f < folded.entries.size(); ++f) {
        const bool same_class =
            graph.ranks[all.entries[e].rank].program == graph.ranks[folded.entries[f].rank].program;
        if (!same_class || all.entries[e].run != folded.entries[f].run) continue;
        REQUIRE(all_times.begin[e] == folded_times.begin[f]);
        REQUIRE(all_times.end[e] == folded_times.end[f]);
      }
    }
  }
}

TEST_CASE("a straggler splits its class before the run, and folded still equals unfolded") {
  PhysicalGraph graph = pipeline_graph({.stages = 2, .replicas = 4, .micro_batches = 4});
  give_work(graph);
  const TestCost cost(50);
  const EqualNetwork network;
  const GroupMembers members(graph);
  std::vector<std::int32_t> colours(8, 0);
  colours[1] = 1;
  const RankClasses classes = rank_classes(graph, members, colours);
  // Stage 0: rank 1 and the three others; stage 1: its partner, rank 5, and the three others.
  CHECK(classes.size() == 4);
  const auto with_straggler = [&](const Tape& tape) {
    std::vector<Duration> durations = entry_durations(tape, graph, cost);
    for (std::size_t e = 0; e < durations.size(); ++e) {
      if (tape.entries[e].rank == Rank(1)) durations[e] = durations[e] * 3;
    }
    return evaluate(tape, graph, durations, cost, network).step_end;
  };
  const Tape all = record_all_ranks(graph);
  const Tape folded = record(ProvenGraph(graph), classes);
  CHECK(with_straggler(folded) == with_straggler(all));
  CHECK(with_straggler(all) !=
        evaluate(all, graph, entry_durations(all, graph, cost), cost, network).step_end);
}

TEST_CASE("tape times are monotone in every duration") {
  PhysicalGraph graph = pipeline_graph({.stages = 3, .micro_batches = 5, .launch_groups = true});
  give_work(graph);
  const TestCost cost(10);
  const RingNetwork network;
  const Tape tape = record_step(graph);
  const std::vector<Duration> base = entry_durations(tape, graph, cost);
  const TapeTimes times = evaluate(tape, graph, base, cost, network);
  for (std::size_t e = 0; e < base.size(); ++e) {
    std::vector<Duration> longer = base;
    longer[e] += Duration(1234);
    const TapeTimes later = evaluate(tape, graph, longer, cost, network);
    for (std::size_t i = 0; i < base.size(); ++i) REQUIRE(later.end[i] >= times.end[i]);
  }
}

TEST_CASE("waits of the recorded step reach at most one step back, some of them across") {
  const PhysicalGraph graph = pipeline_graph({.stages = 3, .micro_batches = 5});
  const Tape tape = record_step(graph);
  bool crosses = false;
  for (const TapeEntry& entry : tape.entries) {
    for (std::int32_t w = entry.first_wait; w < entry.first_wait + entry.num_waits; ++w) {
      const TapeWait& wait = tape.waits[static_cast<std::size_t>(w)];
      const TapeEntry& earlier = tape.entries[static_cast<std::size_t>(wait.entry)];
      CHECK(earlier.rank == entry.rank);
      CHECK(earlier.queue != entry.queue);
      if (wait.lag == 0) CHECK(earlier.run < entry.run);
      crosses = crosses || wait.lag == 1;
    }
  }
  CHECK(crosses);
}

TEST_CASE("the window lets the host run only so far ahead") {
  // One queue of four acts of 100, launches cost 1. Window 1: launch k at max(k, end of k - 1) =
  // 100 k, so each act begins when the one before has ended: no difference in begin times, but
  // with an expensive launch of 30 the host is never ahead: 0, then max(30, 100) = 100, ...
  // Window 256: host(k) = 30 k, and acts begin at 100 k all the same.
  // Run-ahead of one step: the first launch of step 1 is issued at the end of step 0.
  GraphBuilder builder;
  const PlacementId here = builder.placement({{"x", 1}}, Rank(0));
  const LayoutId layout = builder.layout(Shape{4}, "B", here);
  const ProgramId program = builder.program("p", here);
  BlockBuilder block(builder, "b", Phase::kForward);
  const std::int32_t slow = block.reg("slow", layout, block.frame());
  block.actor("slow", QueueRole::kCompute, {}, {slow}).work.flops = 100;
  block.actor("fast", QueueRole::kCopyOut, {}, {}).work.flops = 7;
  const InstanceId instance = builder.instance(program, block.finish(), "i", 4, {1});
  for (std::int32_t act = 0; act < 4; ++act) builder.act(program, instance, act);
  builder.bind(program);
  const PhysicalGraph graph = builder.graph();
  const TestCost cost(1);
  const EqualNetwork network;
  const Tape tape = record_step(graph);
  const auto fast_begins = [&](std::int64_t window, std::int64_t run_ahead) {
    TapeOptions options;
    options.steps = 1;
    options.window = window;
    options.run_ahead_steps = run_ahead;
    const TapeTimes times =
        evaluate(tape, graph, entry_durations(tape, graph, cost), cost, network, options);
    std::vector<std::int64_t> begins;
    for (std::size_t e = 0; e < tape.entries.size(); ++e) {
      if (tape.entries[e].queue == QueueRole::kCopyOut) begins.push_back(times.begin[e].value);
    }
    return begins;
  };
  // Launches alternate slow, fast: host times 0, 1, 2, ...; fast acts begin at 1, 8, 15, 22
  // (back to back, 7 each: 1, then max(3, 8), ...).
  CHECK(fast_begins(256, 2) == std::vector<std::int64_t>{1, 8, 15, 22});
  // Window 1: slow act k is launched when slow act k - 1 is done, at 100 k; fast follows 1 later.
  CHECK(fast_begins(1, 2) == std::vector<std::int64_t>{1, 101, 201, 301});
}

TEST_CASE("jitter has mean 1 and the deviation asked for, and depends on who acts and when") {
  double sum = 0, squares = 0;
  const int n = 20000;
  for (int i = 0; i < n; ++i) {
    const double factor = jitter_factor(0.1, 7, Rank(i % 8), RunId(i / 8 % 50), i / 400);
    sum += factor;
    squares += factor * factor;
  }
  const double mean = sum / n;
  const double deviation = std::sqrt(squares / n - mean * mean);
  // Standard errors: 0.1 / sqrt(20000) = 0.0007 of the mean, about 0.0005 of the deviation.
  CHECK(std::abs(mean - 1) < 0.004);
  CHECK(std::abs(deviation - 0.1) < 0.003);
  CHECK(jitter_factor(0.1, 7, Rank(0), RunId(0), 0) != jitter_factor(0.1, 7, Rank(1), RunId(0), 0));
  CHECK(jitter_factor(0.1, 7, Rank(0), RunId(0), 0) != jitter_factor(0.1, 7, Rank(0), RunId(1), 0));
  CHECK(jitter_factor(0.1, 7, Rank(0), RunId(0), 0) != jitter_factor(0.1, 7, Rank(0), RunId(0), 1));
  CHECK(jitter_factor(0.1, 7, Rank(0), RunId(0), 0) != jitter_factor(0.1, 8, Rank(0), RunId(0), 0));
  CHECK(jittered(Duration(1000), 0.0, 7, Rank(0), RunId(0), 0) == Duration(1000));
}

}  // namespace sextant::tape_test
