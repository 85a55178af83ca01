// Virtual time of whole steps: schedules solved by hand, the modes against each other, the parts.

#include "simulator/modes/simulate.h"

#include "core/base/error.h"
#include "simulator/modes/prepared_graph.h"
#include "simulator/steps/step_parts.h"
#include "tests/simulator/toy_graph.h"
#include "tests/simulator/toy_pipeline.h"

#include <doctest/doctest.h>

#include <cmath>
#include <map>
#include <set>

namespace sextant::simulate_test {
namespace {

Duration first_step(const PhysicalGraph& graph) {
  SimulateOptions options;
  options.steps = 1;
  return simulate(graph, ToyCost(), ToyNetwork(), options).step_time;
}

// Warm-up is min(m, p-1-stage) forwards. Stage 0 of 4, m = 2: F0 F1 at 0-2, then waits for B0,
// which comes back after 4 F and 4 B: B0 ends at 8 and B1, one behind, at 9 + 1 = 10... with
// (m + p - 1)(F + B) = 5 x 2 = 10. m = 1: 4 x 2 = 8.
TEST_CASE("1F1B over 4 stages ends after 10 with 2 micro-batches and after 8 with 1") {
  ToyPipeline pipeline{{1, 1, 1, 1}, {1, 1, 1, 1}};
  pipeline.micro_batches = 2;
  CHECK(first_step(make_toy_pipeline(pipeline)) == Duration(10));
  pipeline.micro_batches = 1;
  CHECK(first_step(make_toy_pipeline(pipeline)) == Duration(8));
}

// Stage times 3, 5, 2 (forward + backward) and 4 micro-batches, in units of 1/6:
// forward = half: F = 9, 15, 6 and B the same; 23 x 6 = 138.
// backward = twice: F = 6, 10, 4 and B = 12, 20, 8; 23 1/3 x 6 = 140.
TEST_CASE("uneven stages end at the exact time of their schedule, not of a formula") {
  ToyPipeline even{{9, 15, 6}, {9, 15, 6}};
  even.micro_batches = 4;
  CHECK(first_step(make_toy_pipeline(even)) == Duration(138));
  ToyPipeline heavy{{6, 10, 4}, {12, 20, 8}};
  heavy.micro_batches = 4;
  CHECK(first_step(make_toy_pipeline(heavy)) == Duration(140));
}

// (m + p - 1)(F + B) for both; the bubble is (p - 1)(F + B) of it: (p-1)/(m+p-1).
TEST_CASE("the bubble of GPipe and 1F1B is (p-1)/(m+p-1) of the step") {
  for (const ToySchedule schedule : {ToySchedule::kGPipe, ToySchedule::kOneFOneB})
    for (const std::int32_t stages : {1, 2, 4, 8})
      for (const std::int32_t micro_batches : {1, 3, 8, 16}) {
        CAPTURE(stages);
        CAPTURE(micro_batches);
        ToyPipeline pipeline;
        pipeline.forward.assign(static_cast<std::size_t>(stages), 100);
        pipeline.backward.assign(static_cast<std::size_t>(stages), 200);
        pipeline.micro_batches = micro_batches;
        pipeline.schedule = schedule;
        const Simulation result = simulate(make_toy_pipeline(pipeline), ToyCost(), ToyNetwork());
        CHECK(result.step_time == Duration(300 * (micro_batches + stages - 1)));
        CHECK(result.parts.bubble.mean_s == doctest::Approx(300e-12 * (stages - 1)).epsilon(1e-12));
        CHECK(result.parts.compute.mean_s ==
              doctest::Approx(300e-12 * micro_batches).epsilon(1e-12));
      }
}

// Two ranks; kernel 10, all_reduce 20, kernel 5.
PhysicalGraph kernel_reduce_kernel(bool dependent) {
  ToyProgram program;
  program.name = "all";
  program.ops = {{"first", QueueRole::kCompute, 10, {}},
                 {"reduce",
                  QueueRole::kCollective,
                  0,
                  {{"first"}},
                  ToyCommunication{Primitive::kAllReduce, Side::kBoth, "both", 20}},
                 {"last", QueueRole::kCompute, 5, {{dependent ? "reduce" : "first"}}}};
  program.order = {{"first"}, {"reduce"}, {"last"}};
  return make_toy_graph({program}, {{0, {{"both", "pair"}}}, {0, {{"both", "pair"}}}},
                        {{"pair", {0, 1}}});
}

TEST_CASE("a kernel waits for a collective it needs and not for one it does not") {
  CHECK(first_step(kernel_reduce_kernel(true)) == Duration(35));
  CHECK(first_step(kernel_reduce_kernel(false)) == Duration(30));
}

// Ranks 4-7 reduce 100 bytes among themselves, then all eight reduce 40.
PhysicalGraph sub_then_all() {
  const ToyOp all{"all",
                  QueueRole::kCollective,
                  0,
                  {},
                  ToyCommunication{Primitive::kAllReduce, Side::kBoth, "all", 40}};
  ToyOp sub = all;
  sub.name = "sub";
  sub.communication->group = "sub";
  sub.communication->bytes = 100;
  const ToyProgram plain{"plain", {all}, {{"all"}}};
  const ToyProgram busy{"busy", {sub, all}, {{"sub"}, {"all"}}};
  std::vector<ToyRank> ranks;
  for (int rank = 0; rank < 8; ++rank) {
    if (rank < 4)
      ranks.push_back({0, {{"all", "all"}}});
    else
      ranks.push_back({1, {{"all", "all"}, {"sub", "sub"}}});
  }
  return make_toy_graph({plain, busy}, ranks,
                        {{"all", {0, 1, 2, 3, 4, 5, 6, 7}}, {"sub", {4, 5, 6, 7}}});
}

// 100, then 40: 0-3 wait for 4-7.
TEST_CASE("a global collective waits for the subgroup collective of some of its members") {
  const PhysicalGraph graph = sub_then_all();
  CHECK(first_step(graph) == Duration(140));
  // Late members are bubble for those who wait: 100 of 140 on four of eight ranks.
  SimulateOptions options;
  options.steps = 1;
  const StepParts parts = simulate(graph, ToyCost(), ToyNetwork(), options).parts;
  CHECK(parts.bubble.max_s == doctest::Approx(100e-12));
  CHECK(parts.bubble.min_s == 0);
  CHECK(parts.exposed_communication.mean_s == doctest::Approx((4 * 40e-12 + 4 * 140e-12) / 8));
}

// Ring volumes: 40 bytes in 8 chunks of 5 are 2 * 40 - 5 - 5 = 70 per neighbour, 100 bytes in 4
// chunks of 25 are 150.
TEST_CASE("the traffic of a step is counted per pair of ranks, by either mode") {
  const PhysicalGraph graph = sub_then_all();
  std::vector<PairBytes> expected;
  for (int rank = 0; rank < 7; ++rank)
    expected.push_back({Rank(rank), Rank(rank + 1), Bytes(rank < 4 ? 70 : 70 + 150)});
  expected.push_back({Rank(7), Rank(0), Bytes(70)});
  expected.push_back({Rank(7), Rank(4), Bytes(150)});
  SimulateOptions options;
  for (const SimulationMode mode : {SimulationMode::kTape, SimulationMode::kStep}) {
    options.mode = mode;
    options.keep_traffic = true;
    CHECK(simulate(graph, ToyCost(), ToyNetwork(), options).traffic == expected);
    options.keep_traffic = false;
    CHECK(simulate(graph, ToyCost(), ToyNetwork(), options).traffic.empty());
  }
}

// One kernel of 10 per step and a launch cost of 25: the device is idle 15 of 25.
TEST_CASE("a device that outruns its host is idle because nothing was issued") {
  const ToyProgram program{"one", {{"kernel", QueueRole::kCompute, 10, {}}}, {{"kernel"}}};
  const PhysicalGraph graph = make_toy_graph({program}, {{0, {}}}, {});
  const Simulation result = simulate(graph, ToyCost(25), ToyNetwork());
  CHECK(result.step_time == Duration(25));
  CHECK(result.parts.host.mean_s == doctest::Approx(15e-12));
  CHECK(result.parts.compute.mean_s == doctest::Approx(10e-12));
  CHECK(result.parts.bubble.mean_s == 0);
}

TEST_CASE("optimizer compute is a part of its own and all parts add up to the step") {
  ToyPipeline pipeline{{70, 110, 50}, {130, 90, 170}};
  pipeline.micro_batches = 5;
  pipeline.replicas = 2;
  pipeline.optimizer = 40;
  pipeline.gradient_bytes = 60;
  const Simulation result = simulate(make_toy_pipeline(pipeline), ToyCost(3), ToyNetwork(11));
  const StepParts& parts = result.parts;
  CHECK(parts.optimizer.mean_s == doctest::Approx(40e-12));
  const double sum = parts.optimizer.mean_s + parts.compute.mean_s +
                     parts.exposed_communication.mean_s + parts.host.mean_s + parts.bubble.mean_s;
  CHECK(sum == doctest::Approx(to_seconds(result.step_time)).epsilon(1e-12));
}

// ---------------------------------------------------------------- modes against each other

// Equal times, launch for launch, of the last step and of every step's end.
void check_equal(const Timeline& a, const Timeline& b) {
  CHECK(a.step_end == b.step_end);
  CHECK(a.events == b.events);
  REQUIRE(a.ranks.size() == b.ranks.size());
  for (std::size_t rank = 0; rank < a.ranks.size(); ++rank) {
    CHECK(a.ranks[rank].rank == b.ranks[rank].rank);
    CHECK(a.ranks[rank].ranks == b.ranks[rank].ranks);
    const auto by_run = [](std::vector<TimedRun> runs) {
      std::sort(runs.begin(), runs.end(),
                [](const TimedRun& x, const TimedRun& y) { return x.run < y.run; });
      return runs;
    };
    const auto left = by_run(a.ranks[rank].runs), right = by_run(b.ranks[rank].runs);
    REQUIRE(left.size() == right.size());
    for (std::size_t i = 0; i < left.size(); ++i) {
      CAPTURE(i);
      CHECK(left[i].run == right[i].run);
      CHECK(left[i].queue == right[i].queue);
      CHECK(left[i].optimizer == right[i].optimizer);
      CHECK(left[i].issued == right[i].issued);
      CHECK(left[i].arrived == right[i].arrived);
      CHECK(left[i].begin == right[i].begin);
      CHECK(left[i].end == right[i].end);
    }
  }
}

// Forward and backward of equal length end at equal times on neighbouring stages: exchanges.
ToyPipeline pipeline_of_exchanges() {
  ToyPipeline pipeline{{100, 100, 100, 100}, {100, 100, 100, 100}};
  pipeline.micro_batches = 8;
  pipeline.replicas = 2;
  pipeline.optimizer = 40;
  pipeline.gradient_bytes = 60;
  pipeline.launch_groups = true;
  return pipeline;
}

std::vector<ToyPipeline> pipelines_to_compare() {
  std::vector<ToyPipeline> pipelines;
  for (const ToySchedule schedule : {ToySchedule::kGPipe, ToySchedule::kOneFOneB})
    for (const std::int32_t replicas : {1, 2, 4})
      for (const std::int32_t registers : {0, 4}) {
        ToyPipeline pipeline{{70, 110, 50, 90}, {130, 90, 170, 110}};
        pipeline.micro_batches = 7;
        pipeline.replicas = replicas;
        pipeline.schedule = schedule;
        pipeline.optimizer = 40;
        pipeline.gradient_bytes = 60;
        // GPipe holds all activations of a step, 1F1B as many as there are stages behind.
        pipeline.activation_registers = schedule == ToySchedule::kGPipe ? 0 : registers;
        pipelines.push_back(pipeline);
      }
  pipelines.push_back(pipeline_of_exchanges());
  return pipelines;
}

SimulateOptions with(SimulationMode mode, bool folded, double jitter, std::int64_t window) {
  SimulateOptions options;
  options.mode = mode;
  options.folded = folded;
  options.jitter = jitter;
  options.window = window;
  options.seed = 42;
  options.steps = 6;
  return options;
}

TEST_CASE("the tape gives the times of the stepped actors, with jitter and a small window too") {
  for (const ToyPipeline& pipeline : pipelines_to_compare()) {
    const PhysicalGraph graph = make_toy_pipeline(pipeline);
    for (const double jitter : {0.0, 0.2})
      for (const std::int64_t window : {1, 2, 5, 256})
        for (const std::int64_t launch_cost : {0, 9}) {
          CAPTURE(pipeline.replicas);
          CAPTURE(jitter);
          CAPTURE(window);
          const ToyCost cost(launch_cost);
          const ToyNetwork network(13);
          check_equal(simulate_timeline(graph, cost, network,
                                        with(SimulationMode::kTape, true, jitter, window)),
                      simulate_timeline(graph, cost, network,
                                        with(SimulationMode::kStep, true, jitter, window)));
        }
  }
}

// With launch groups both directions of an exchange end with the later one; without, each on its
// own.
TEST_CASE("a launch group ends as a whole") {
  const PhysicalGraph graph = make_toy_pipeline(pipeline_of_exchanges());
  std::int64_t members = 0;
  for (const Run& run : graph.programs[ProgramId(1)].order)
    members += run.launch_group.is_valid() ? 1 : 0;
  REQUIRE(members >= 4);
  const Timeline timeline = simulate_timeline(graph, ToyCost(), ToyNetwork(13));
  for (const RankTimeline& rank : timeline.ranks) {
    const RankProgram& program = graph.program_of(rank.rank);
    std::map<LaunchGroupId, std::set<std::pair<Time, Time>>> by_group;
    for (const TimedRun& run : rank.runs)
      if (const LaunchGroupId group = program.order[run.run].launch_group; group.is_valid())
        by_group[group].insert({run.begin, run.end});
    for (const auto& [group, times] : by_group) CHECK(times.size() == 1);
  }
}

// Ranks whose work takes longer than it does elsewhere.
class UnevenCost : public ToyCost {
 public:
  explicit UnevenCost(std::vector<std::int32_t> factors)
      : ToyCost(9), factors_(std::move(factors)) {}
  Duration duration_on(Rank rank, const Work& work) const override {
    return duration(work) * factors_[rank.index()];
  }
  std::int32_t colour_of(Rank rank) const override { return factors_[rank.index()]; }

 private:
  std::vector<std::int32_t> factors_;
};

// Members are over one after the other, so places in a group are not alike.
class StaggeredNetwork : public ToyNetwork {
 public:
  StaggeredNetwork() : ToyNetwork(13) {}
  void complete(const CollectiveCost& cost, std::span<const Time> arrivals,
                std::span<Time> done) const override {
    ToyNetwork::complete(cost, arrivals, done);
    for (std::size_t i = 0; i < done.size(); ++i)
      done[i] += Duration(5 * static_cast<std::int64_t>(i));
  }
  bool completes_together() const override { return false; }
};

// Every representative has the times that it has among all ranks, stepped one by one.
void check_folded(const PhysicalGraph& graph, const CostModel& cost, const NetworkModel& network,
                  std::size_t expected_classes) {
  const Timeline stepped =
      simulate_timeline(graph, cost, network, with(SimulationMode::kStep, false, 0, 256));
  for (const SimulationMode mode : {SimulationMode::kTape, SimulationMode::kStep}) {
    const Timeline folded = simulate_timeline(graph, cost, network, with(mode, true, 0, 256));
    CHECK(folded.ranks.size() == expected_classes);
    CHECK(folded.step_end == stepped.step_end);
    std::int64_t ranks = 0;
    for (const RankTimeline& one : folded.ranks) {
      ranks += one.ranks;
      const RankTimeline& alone = stepped.ranks[one.rank.index()];
      REQUIRE(one.runs.size() == alone.runs.size());
      for (std::size_t i = 0; i < one.runs.size(); ++i) {
        const auto same = std::find_if(alone.runs.begin(), alone.runs.end(),
                                       [&](const TimedRun& r) { return r.run == one.runs[i].run; });
        REQUIRE(same != alone.runs.end());
        CHECK(same->begin == one.runs[i].begin);
        CHECK(same->end == one.runs[i].end);
      }
    }
    CHECK(ranks == static_cast<std::int64_t>(graph.ranks.size()));
  }
}

TEST_CASE("a straggler has a class of its own, and its peers by what they meet of it") {
  ToyPipeline pipeline{{70, 110}, {130, 90}};
  pipeline.micro_batches = 5;
  pipeline.replicas = 4;
  pipeline.optimizer = 40;
  pipeline.gradient_bytes = 60;
  const PhysicalGraph graph = make_toy_pipeline(pipeline);
  // Rank 1 is in stage 0: it, its three peers, and the same in stage 1 by whom they hear from.
  check_folded(graph, UnevenCost({1, 3, 1, 1, 1, 1, 1, 1}), ToyNetwork(13), 4);
  check_folded(graph, UnevenCost({1, 1, 1, 1, 1, 1, 1, 1}), ToyNetwork(13), 2);
  check_folded(graph, UnevenCost({1, 1, 1, 1, 2, 2, 2, 2}), ToyNetwork(13), 2);
}

TEST_CASE("a prepared graph says what simulate says, for other models and seeds too") {
  ToyPipeline pipeline{{70, 110}, {130, 90}};
  pipeline.micro_batches = 5;
  pipeline.replicas = 4;
  pipeline.gradient_bytes = 60;
  const PhysicalGraph graph = make_toy_pipeline(pipeline);
  SimulateOptions jittered;
  jittered.jitter = 0.2;
  const PreparedGraph folded(graph, ToyCost(3), ToyNetwork(13));
  const PreparedGraph unfolded(graph, ToyCost(3), ToyNetwork(13), jittered);
  for (const std::int64_t transfer : {0, 13, 400}) {
    const ToyNetwork network(transfer);
    check_equal(folded.timeline(ToyCost(9), network),
                simulate_timeline(graph, ToyCost(9), network));
    jittered.seed += 7;
    check_equal(unfolded.timeline(ToyCost(9), network, jittered),
                simulate_timeline(graph, ToyCost(9), network, jittered));
  }
  CHECK(folded.simulate(ToyCost(3), ToyNetwork(13)).ranks_simulated == 2);
  CHECK_THROWS_AS(folded.timeline(ToyCost(3), ToyNetwork(13), jittered), Error);
  CHECK_THROWS_AS(folded.timeline(UnevenCost({1, 3, 1, 1, 1, 1, 1, 1}), ToyNetwork(13)), Error);
  jittered.mode = SimulationMode::kStep;
  CHECK_THROWS_AS(unfolded.timeline(ToyCost(3), ToyNetwork(13), jittered), Error);
}

TEST_CASE("where places in a group are not alike, members of one group do not fold") {
  ToyPipeline pipeline{{70, 110}, {130, 90}};
  pipeline.micro_batches = 5;
  pipeline.replicas = 4;
  pipeline.gradient_bytes = 60;
  const PhysicalGraph graph = make_toy_pipeline(pipeline);
  check_folded(graph, ToyCost(9), StaggeredNetwork(), 8);
}

TEST_CASE("folded ranks have the times of all ranks they stand for") {
  for (const ToyPipeline& pipeline : pipelines_to_compare()) {
    const PhysicalGraph graph = make_toy_pipeline(pipeline);
    for (const SimulationMode mode : {SimulationMode::kTape, SimulationMode::kStep}) {
      const Timeline folded =
          simulate_timeline(graph, ToyCost(9), ToyNetwork(13), with(mode, true, 0, 256));
      const Timeline all =
          simulate_timeline(graph, ToyCost(9), ToyNetwork(13), with(mode, false, 0, 256));
      CHECK(folded.ranks.size() == pipeline.forward.size());
      CHECK(all.ranks.size() == graph.ranks.size());
      CHECK(folded.step_end == all.step_end);
      for (const RankTimeline& one : all.ranks) {
        const RankTimeline& stands_for =
            folded.ranks[one.rank.index() / static_cast<std::size_t>(pipeline.replicas)];
        REQUIRE(one.runs.size() == stands_for.runs.size());
        for (std::size_t i = 0; i < one.runs.size(); ++i) {
          CHECK(one.runs[i].run == stands_for.runs[i].run);
          CHECK(one.runs[i].begin == stands_for.runs[i].begin);
          CHECK(one.runs[i].end == stands_for.runs[i].end);
        }
      }
    }
  }
}

}  // namespace
}  // namespace sextant::simulate_test
