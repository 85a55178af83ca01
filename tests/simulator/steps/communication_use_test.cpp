// Communication of a step, by hand: what nothing computes beside, and what it does to computation.
#include "simulator/steps/communication_use.h"

#include "simulator/modes/simulate.h"
#include "simulator/recordings/stamped_steps.h"
#include "tests/simulator/toy_graph.h"
#include "tests/simulator/toy_pipeline.h"

#include <doctest/doctest.h>

#include <array>
#include <span>
#include <string>
#include <vector>

namespace sextant::communication_use_test {
namespace {

// Of two ranks: three kernels of 200, an all-reduce of 60 bytes behind the first, an all-gather.
PhysicalGraph two_ranks() {
  const auto kernel = [](const char* name) { return ToyOp{name, QueueRole::kCompute, 200, {}}; };
  const auto collective = [](const char* name, Primitive primitive, std::int64_t bytes) {
    return ToyOp{name,
                 QueueRole::kCollective,
                 0,
                 {{"first"}},
                 ToyCommunication{primitive, Side::kBoth, "all", bytes}};
  };
  const ToyProgram program{
      "one",
      {kernel("first"), collective("sum", Primitive::kAllReduce, 60), kernel("second"),
       kernel("third"), collective("gather", Primitive::kAllGather, 10)},
      {{"first"}, {"sum"}, {"second"}, {"third"}, {"gather"}}};
  return make_toy_graph({program}, {{0, {{"all", "all"}}}, {0, {{"all", "all"}}}},
                        {{"all", {0, 1}}});
}

TimedRun computed(int run, std::int64_t begin, std::int64_t end) {
  return {RunId(run), QueueRole::kCompute, false, Time(begin), Time(begin), Time(begin), Time(end)};
}

TimedRun communicated(int run, std::int64_t begin, std::int64_t arrived, std::int64_t end) {
  return {RunId(run), QueueRole::kCollective, false, Time(begin), Time(arrived), Time(begin),
          Time(end)};
}

std::string one_name(Rank, RunId) { return "kernel"; }

CommunicationUse use_of(const PhysicalGraph& graph, const Timeline& timeline) {
  return communication_use(graph, std::span(&timeline, 1), one_name);
}

doctest::Approx picoseconds(double count) { return doctest::Approx(count * 1e-12); }

}  // namespace

// Kernels take 200 alone. On rank 0 `second` does half of that until 300, when the sum begins in
// earnest, the rest at half the speed until 500; `third` begins at 550, does 25 until 600 and the
// rest until 775. The sum is in progress from 300 to 600, alone from 500 to 550; it waited 50.
TEST_CASE("exposed communication and the slow-down of what runs beside it, worked out by hand") {
  const PhysicalGraph graph = two_ranks();
  Timeline timeline;
  timeline.step_end = {Time(0), Time(1000)};
  timeline.ranks = {{Rank(0),
                     1,
                     {computed(0, 0, 200), communicated(1, 250, 300, 600), computed(2, 200, 500),
                      computed(3, 550, 775), communicated(4, 800, 800, 900)}},
                    {Rank(1), 1, {computed(0, 0, 200), communicated(1, 300, 300, 600)}}};
  const CommunicationUse use = use_of(graph, timeline);
  CHECK(use.all.launches == doctest::Approx(1.5));
  CHECK(use.all.in_progress_s == picoseconds((300 + 100 + 300) / 2.0));
  CHECK(use.all.exposed_s == picoseconds((50 + 100 + 300) / 2.0));
  CHECK(use.all.waiting_s == picoseconds(50 / 2.0));
  REQUIRE(use.rows.size() == 2);
  CHECK(use.rows[0].kind == "all_reduce");
  CHECK(use.rows[0].times.in_progress_s == picoseconds((300 + 300) / 2.0));
  CHECK(use.rows[0].times.exposed_s == picoseconds((50 + 300) / 2.0));
  CHECK(use.rows[1].kind == "all_gather");
  CHECK(use.rows[1].times.exposed_s == picoseconds(100 / 2.0));
  CHECK(use.beside_s == picoseconds((200 + 50) / 2.0));
  CHECK(use.compared_s == picoseconds((200 + 50) / 2.0));
  REQUIRE(use.slowdown.has_value());
  CHECK(*use.slowdown == doctest::Approx(2));
}

TEST_CASE(
    "what always runs beside communication tells no slow-down, a rank weighs as many as it stands "
    "for") {
  const PhysicalGraph graph = two_ranks();
  Timeline timeline;
  timeline.step_end = {Time(0), Time(1000)};
  timeline.ranks = {
      {Rank(0), 3, {computed(0, 0, 200), communicated(1, 0, 0, 400), computed(2, 200, 300)}},
      {Rank(1), 1, {computed(0, 0, 200)}}};
  const WorkName by_run = [](Rank rank, RunId run) {
    return std::to_string(rank.value) + "." + std::to_string(run.value);
  };
  const CommunicationUse use = communication_use(graph, std::span(&timeline, 1), by_run);
  CHECK_FALSE(use.slowdown.has_value());
  CHECK(use.beside_s == picoseconds(3 * 300 / 4.0));
  CHECK(use.compared_s == 0);
  CHECK(use.all.exposed_s == picoseconds(3 * 100 / 4.0));
}

TEST_CASE("exposed communication of a simulated step is that of its parts") {
  ToyPipeline pipeline{{70, 110, 50}, {130, 90, 170}};
  pipeline.micro_batches = 5;
  pipeline.replicas = 2;
  pipeline.gradient_bytes = 60;
  const PhysicalGraph graph = make_toy_pipeline(pipeline);
  for (const bool folded : {false, true}) {
    SimulateOptions options;
    options.folded = folded;
    const Timeline timeline = simulate_timeline(graph, ToyCost(3), ToyNetwork(11), options);
    const Simulation simulation = simulation_of(graph, ToyCost(3), timeline, options);
    const CommunicationUse use = use_of(graph, timeline);
    CHECK(use.all.exposed_s ==
          doctest::Approx(simulation.parts.exposed_communication.mean_s).epsilon(1e-9));
    CHECK(use.all.in_progress_s > use.all.exposed_s);
    CHECK(use.rows.size() >= 3);  // transfers on their queues, the sum of gradients
  }
}

// `second` runs beside the sum at half its speed: the timed mode says so, and it is found again.
TEST_CASE("a slow-down that timed mode was given is the one that its timeline tells") {
  const PhysicalGraph graph = two_ranks();
  SimulateOptions options;
  options.mode = SimulationMode::kTimed;
  options.overlap = {{.compute = 0.5, .communication = 1}, {.compute = 0.5, .communication = 1}};
  const Timeline timeline = simulate_timeline(graph, ToyCost(), ToyNetwork(), options);
  const CommunicationUse use = use_of(graph, timeline);
  REQUIRE(use.slowdown.has_value());
  CHECK(*use.slowdown == doctest::Approx(2));
  CHECK(use.beside_s == picoseconds(60 + 10));
  CHECK(use.all.exposed_s == 0);
}

namespace {

Stamp stamp(int run, std::int64_t step, std::int64_t begin, std::int64_t end, int first_actor = 0,
            int num_actors = 0) {
  return {RunId(run), step, Duration(begin), Duration(end), first_actor, num_actors};
}

}  // namespace

// Step 0 ends at 1000 of rank 0's clock and at 71000 of rank 1's. In step 1 rank 0 is in the sum
// for 500, rank 1 for 300: it came 200 later. Step 1 takes rank 0 900, rank 1 800.
TEST_CASE("steps of stamps have each rank's own clock, and the shortest member came last") {
  const PhysicalGraph graph = two_ranks();
  const std::vector<std::vector<Stamp>> stamps = {
      {stamp(0, 0, 0, 400), stamp(1, 0, 400, 1000), stamp(0, 1, 1000, 1100, 0, 1),
       stamp(0, 1, 1100, 1250, 0, 1), stamp(1, 1, 1250, 1750), stamp(2, 1, 1300, 1900)},
      {stamp(1, 0, 70400, 71000), stamp(0, 1, 71000, 71400), stamp(1, 1, 71400, 71700),
       stamp(2, 1, 71400, 71800)}};
  const std::vector<Timeline> steps = stamped_steps(graph, stamps);
  REQUIRE(steps.size() == 1);
  const Timeline& step = steps.front();
  CHECK(step.step_time() == Duration(900));
  REQUIRE(step.ranks.size() == 2);
  const Time zero = step.step_end.front();
  const std::vector<TimedRun>& first = step.ranks[0].runs;
  REQUIRE(first.size() == 3);
  CHECK(first[0].begin - zero == Duration(0));
  CHECK(first[0].end - zero == Duration(250));
  CHECK(first[1].begin - zero == Duration(250));
  CHECK(first[1].arrived - zero == Duration(450));
  CHECK(first[1].end - zero == Duration(750));
  const std::vector<TimedRun>& second = step.ranks[1].runs;
  REQUIRE(second.size() == 3);
  CHECK(second[1].arrived == second[1].begin);
  CHECK(second[1].begin - zero == Duration(400));
  const CommunicationUse use = use_of(graph, step);
  CHECK(use.all.waiting_s == picoseconds(200 / 2.0));
  CHECK(use.all.in_progress_s == picoseconds(300));
  CHECK(stamped_steps(graph, {{}, {}}).empty());
}

}  // namespace sextant::communication_use_test
