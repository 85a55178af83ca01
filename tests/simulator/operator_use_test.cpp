// Times of operators: by hand, and the law that they add up to those of launches.

#include "simulator/reports/operator_use.h"

#include "simulator/modes/simulate.h"
#include "tests/simulator/toy_graph.h"
#include "tests/simulator/toy_pipeline.h"

#include <doctest/doctest.h>

#include <map>
#include <string>

namespace sextant::operator_use_test {
namespace {

std::map<std::string, OperatorUse> by_name(const std::vector<OperatorUse>& uses) {
  std::map<std::string, OperatorUse> named;
  for (const OperatorUse& use : uses) named[use.name] = use;
  CHECK(named.size() == uses.size());
  return named;
}

// Rank 0 computes 10 and waits for rank 1, which computes 30; then both reduce for 20.
TEST_CASE("communications take time from the last arrival on, before that they wait") {
  const auto program = [](const char* name, std::int64_t kernel) {
    return ToyProgram{name,
                      {{name, QueueRole::kCompute, kernel},
                       {"reduce",
                        QueueRole::kCollective,
                        0,
                        {{name}},
                        ToyCommunication{Primitive::kAllReduce, Side::kBoth, "all", 20}}},
                      {{name}, {"reduce"}}};
  };
  const PhysicalGraph graph =
      make_toy_graph({program("short", 10), program("long", 30)},
                     {{0, {{"all", "all"}}}, {1, {{"all", "all"}}}}, {{"all", {0, 1}}});
  SimulateOptions options;
  options.steps = 1;
  const auto uses = by_name(
      operator_uses(graph, simulate_timeline(graph, ToyCost(), ToyNetwork(), options), ToyCost()));
  CHECK(uses.at("short").time == Duration(10));
  CHECK(uses.at("long").time == Duration(30));
  CHECK(uses.at("long").flops == 30);
  CHECK(uses.at("reduce").acts == 2);
  CHECK(uses.at("reduce").time == Duration(2 * 20));
  CHECK(uses.at("reduce").waiting == Duration(20));
}

TEST_CASE("kernels add up to their launches, folded as unfolded, jittered too") {
  ToyPipeline pipeline{{70, 110, 50}, {130, 90, 170}};
  pipeline.micro_batches = 5;
  pipeline.replicas = 4;
  pipeline.optimizer = 40;
  pipeline.gradient_bytes = 60;
  const PhysicalGraph graph = make_toy_pipeline(pipeline);
  std::map<std::string, Duration> folded_times;
  for (const double jitter : {0.0, 0.3})
    for (const bool folded : {true, false}) {
      SimulateOptions options;
      options.folded = folded;
      options.jitter = jitter;
      const Timeline timeline = simulate_timeline(graph, ToyCost(), ToyNetwork(7), options);
      Duration launches, kernels;
      for (const RankTimeline& rank : timeline.ranks)
        for (const TimedRun& run : rank.runs)
          if (run.queue == QueueRole::kCompute) launches += (run.end - run.begin) * rank.ranks;
      for (const OperatorUse& use : operator_uses(graph, timeline, ToyCost())) {
        if (use.queue == QueueRole::kCompute) kernels += use.time;
        if (jitter > 0) continue;
        if (folded)
          folded_times[use.name] += use.time;
        else
          folded_times[use.name] -= use.time;
      }
      CHECK(kernels == launches);
    }
  for (const auto& [name, difference] : folded_times) CHECK(difference == Duration(0));
}

}  // namespace
}  // namespace sextant::operator_use_test
