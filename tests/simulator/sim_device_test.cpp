// The simulator as a device among others: through the runtime, on threads, and when misused.

#include "simulator/modes/sim_device.h"

#include "actor/runtime.h"
#include "core/base/error.h"
#include "simulator/modes/simulate.h"
#include "tests/simulator/toy_graph.h"
#include "tests/simulator/toy_pipeline.h"

#include <doctest/doctest.h>

#include <memory>
#include <vector>

namespace sextant::sim_device_test {
namespace {

ToyPipeline small_pipeline() {
  ToyPipeline pipeline{{70, 110, 50}, {130, 90, 170}};
  pipeline.micro_batches = 4;
  pipeline.replicas = 2;
  pipeline.gradient_bytes = 60;
  return pipeline;
}

struct SimRun {
  std::vector<IssueHash> hashes;
  std::vector<std::vector<SimLaunch>> launches;
};

SimRun run_on_threads(const PhysicalGraph& graph, std::int64_t steps) {
  const ToyCost cost(3);
  const ToyNetwork network(11);
  Fabric fabric(graph, network, all_ranks(graph));
  std::vector<std::unique_ptr<SimDevice>> devices;
  std::vector<Device*> pointers;
  SimDeviceOptions options;
  options.thread_per_rank = true;
  for (std::size_t rank = 0; rank < graph.ranks.size(); ++rank) {
    devices.push_back(std::make_unique<SimDevice>(fabric, cost, options));
    pointers.push_back(devices.back().get());
  }
  prepare_all(graph, pointers);
  IdleHostActors host;
  SimRun run;
  run.hashes = run_all(graph, pointers, host, steps);
  for (const auto& device : devices) run.launches.push_back(device->launches());
  return run;
}

TEST_CASE("a launch thread per rank gives the times of one thread in the dry run's order") {
  const PhysicalGraph graph = make_toy_pipeline(small_pipeline());
  const SimRun threads = run_on_threads(graph, 3);
  SimulateOptions options;
  options.mode = SimulationMode::kStep;
  options.folded = false;
  options.steps = 3;
  const Timeline one = simulate_timeline(graph, ToyCost(3), ToyNetwork(11), options);
  REQUIRE(one.ranks.size() == threads.launches.size());
  for (std::size_t rank = 0; rank < one.ranks.size(); ++rank) {
    std::size_t at = 0;
    for (const SimLaunch& launch : threads.launches[rank]) {
      if (launch.step != 2) continue;
      const TimedRun& same = one.ranks[rank].runs.at(at++);
      CHECK(launch.run == same.run);
      CHECK(launch.issued == same.issued);
      CHECK(launch.begin == same.begin);
      CHECK(launch.end == same.end);
    }
    CHECK(at == one.ranks[rank].runs.size());
  }
}

TEST_CASE("one thread that runs ahead of a peer is told so instead of hanging") {
  const PhysicalGraph graph = make_toy_pipeline(small_pipeline());
  const ToyCost cost;
  const ToyNetwork network;
  Fabric fabric(graph, network, all_ranks(graph));
  SimDevice device(fabric, cost);
  device.prepare(graph, Rank(0));
  IdleHostActors host;
  RankRuntime runtime(graph, Rank(0), device, host);
  CHECK_THROWS_WITH_AS(runtime.run(1), doctest::Contains("peers have not reached"), Error);
}

TEST_CASE("stamps are the begins and ends of all launches") {
  const ToyProgram program{
      "one",
      {{"a", QueueRole::kCompute, 10, {}}, {"b", QueueRole::kCompute, 5, {{"a"}}}},
      {{"a"}, {"b"}}};
  const PhysicalGraph graph = make_toy_graph({program}, {{0, {}}}, {});
  const ToyCost cost;
  const ToyNetwork network;
  Fabric fabric(graph, network, all_ranks(graph));
  SimDevice device(fabric, cost);
  device.prepare(graph, Rank(0));
  IdleHostActors host;
  RankRuntime runtime(graph, Rank(0), device, host);
  runtime.run(2);
  const auto stamps = device.stamps();
  REQUIRE(stamps.size() == 4);
  const std::int64_t expected[] = {0, 10, 15, 25, 30};
  for (std::size_t i = 0; i < 4; ++i) {
    CHECK(stamps[i].begin == Time(expected[i]));
    CHECK(stamps[i].end == Time(expected[i + 1]));
    CHECK(stamps[i].step == static_cast<std::int64_t>(i / 2));
  }
  CHECK(device.state({QueueRole::kCompute, 0}) == FenceState::kPending);
  device.wait({QueueRole::kCompute, 3});
  CHECK(device.state({QueueRole::kCompute, 3}) == FenceState::kDone);
}

}  // namespace
}  // namespace sextant::sim_device_test
