// What Perfetto needs of a trace: valid JSON, times from 0, slices that nest.

#include "simulator/reports/chrome_trace.h"

#include "simulator/costs/models.h"
#include "tests/simulator/toy_graph.h"
#include "tests/simulator/toy_pipeline.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <map>
#include <vector>

namespace sextant::chrome_trace_test {
namespace {

Simulation traced() {
  ToyPipeline pipeline{{70, 110, 50}, {130, 90, 170}};
  pipeline.micro_batches = 4;
  pipeline.replicas = 2;
  pipeline.optimizer = 40;
  pipeline.gradient_bytes = 60;
  SimulateOptions options;
  options.keep_slices = true;
  return simulate(make_toy_pipeline(pipeline), ToyCost(3), ToyNetwork(11), options);
}

TEST_CASE("no slices are kept unless asked for") {
  const ToyProgram program{"one", {{"kernel", QueueRole::kCompute, 10, {}}}, {{"kernel"}}};
  const PhysicalGraph graph = make_toy_graph({program}, {{0, {}}}, {});
  CHECK(simulate(graph, ToyCost(), ToyNetwork()).slices.empty());
}

TEST_CASE("a trace is JSON whose slices start at 0 and nest on their queue") {
  const Simulation simulation = traced();
  const auto trace = nlohmann::json::parse(to_chrome_trace(simulation));
  struct Slice {
    double begin = 0, end = 0;
  };
  std::map<std::pair<int, int>, std::vector<Slice>> threads;
  double earliest = 1e9;
  for (const auto& event : trace.at("traceEvents")) {
    if (event.at("ph") == "M") continue;
    REQUIRE(event.at("ph") == "X");
    const double begin = event.at("ts"), length = event.at("dur");
    CHECK(begin >= 0);
    CHECK(length >= 0);
    earliest = std::min(earliest, begin);
    threads[{event.at("pid"), event.at("tid")}].push_back({begin, begin + length});
  }
  CHECK(earliest == 0);
  CHECK(threads.size() >= 3 * 2);
  for (auto& [thread, slices] : threads)
    for (const Slice& a : slices)
      for (const Slice& b : slices) {
        // Microseconds with six decimals: half a picosecond of slack for the doubles.
        constexpr double kSlack = 5e-7;
        const bool apart = a.end <= b.begin + kSlack || b.end <= a.begin + kSlack;
        const bool inside = (a.begin >= b.begin - kSlack && a.end <= b.end + kSlack) ||
                            (b.begin >= a.begin - kSlack && b.end <= a.end + kSlack);
        CHECK((apart || inside));
      }
}

TEST_CASE("a trace names each rank and queue and keeps every picosecond") {
  Simulation simulation;
  simulation.slices = {{Rank(3), QueueRole::kCompute, "layer \"0\"", Time(1), Time(1'234'567), 2}};
  const auto trace = nlohmann::json::parse(to_chrome_trace(simulation));
  CHECK(trace["traceEvents"][0]["args"]["name"] == "rank 3");
  CHECK(trace["traceEvents"][1]["args"]["name"] == "compute");
  CHECK(trace["traceEvents"][2]["name"] == "layer \"0\"");
  CHECK(trace["traceEvents"][2]["args"]["act"] == 2);
  CHECK(to_chrome_trace(simulation).find("\"ts\":0.000001,\"dur\":1.234566") != std::string::npos);
}

TEST_CASE("launches in flight rise where the host issues and fall where they end") {
  Timeline timeline;
  RankTimeline rank{Rank(2), 1, {}};
  rank.runs = {{RunId(0), QueueRole::kCompute, false, Time(5), Time(10), Time(10), Time(20)},
               {RunId(1), QueueRole::kCompute, false, Time(12), Time(20), Time(20), Time(30)},
               {RunId(2), QueueRole::kCollective, false, Time(15), Time(15), Time(15), Time(30)}};
  timeline.ranks = {rank};
  timeline.step_end = {Time(30)};
  const auto tracks = launches_in_flight(timeline);
  REQUIRE(tracks.size() == 2);
  using Samples = std::vector<CounterTrack::Sample>;
  // Times count from the first begin; the launch issued at 5 is there when the step is first seen.
  CHECK(tracks[0].samples == Samples{{Time(0), 1}, {Time(2), 2}, {Time(10), 1}, {Time(20), 0}});
  CHECK(tracks[1].samples == Samples{{Time(5), 1}, {Time(20), 0}});
  const auto trace = nlohmann::json::parse(to_chrome_trace({}, tracks));
  CHECK(trace["traceEvents"].size() == 6);
  CHECK(trace["traceEvents"][1]["ph"] == "C");
  CHECK(trace["traceEvents"][1]["args"]["value"] == 2);
  CHECK(trace["traceEvents"][0]["name"] == "compute: launches in flight");
}

TEST_CASE("launches in flight of a simulated step are never negative and end at none") {
  ToyPipeline pipeline{{70, 110, 50}, {130, 90, 170}};
  pipeline.micro_batches = 4;
  SimulateOptions options;
  options.window = 2;
  const auto timeline =
      simulate_timeline(make_toy_pipeline(pipeline), ToyCost(3), ToyNetwork(11), options);
  for (const CounterTrack& track : launches_in_flight(timeline)) {
    REQUIRE(!track.samples.empty());
    CHECK(track.samples.back().value == 0);
    for (const auto& sample : track.samples) {
      CHECK(sample.value >= 0);
      CHECK(sample.value <= 3);  // the window, and the one that waits to enter it
    }
  }
}

}  // namespace
}  // namespace sextant::chrome_trace_test
