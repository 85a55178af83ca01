// The path fills the step; slack against evaluating again with one launch later.

#include "simulator/reports/critical_path.h"

#include "core/base/counter_rng.h"
#include "tests/simulator/toy_graph.h"
#include "tests/simulator/toy_pipeline.h"
#include "tests/support/recorded_step.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

namespace sextant::critical_path_test {
namespace {

struct Evaluated {
  PhysicalGraph graph;
  Tape tape;
  std::vector<Duration> durations;
  TapeOptions options;
  std::int64_t launch_cost = 0;
  std::int64_t transfer = 0;

  TapeTimes times(const std::vector<Duration>& with) const {
    return evaluate(tape, graph, with, ToyCost(launch_cost), ToyNetwork(transfer), options);
  }
  CriticalPath path() const {
    return critical_path(tape, times(durations), ToyNetwork(transfer), Duration(launch_cost),
                         options);
  }
};

// Tapes refer into their graph, so the result does not move.
void evaluate_pipeline(Evaluated& result, const ToyPipeline& pipeline) {
  result.graph = make_toy_pipeline(pipeline);
  result.tape = testing::record_all_ranks(result.graph);
  result.durations = entry_durations(result.tape, result.graph, ToyCost(result.launch_cost));
}

std::vector<ToyPipeline> pipelines() {
  std::vector<ToyPipeline> all;
  for (const ToySchedule schedule : {ToySchedule::kGPipe, ToySchedule::kOneFOneB})
    for (const bool groups : {false, true})
      for (const std::int32_t replicas : {1, 2}) {
        ToyPipeline pipeline{{700, 1100, 500}, {1300, 900, 1700}};
        pipeline.micro_batches = 4;
        pipeline.replicas = replicas;
        pipeline.optimizer = 400;
        pipeline.gradient_bytes = 600;
        pipeline.schedule = schedule;
        pipeline.launch_groups = groups;
        all.push_back(pipeline);
      }
  return all;
}

Duration length(const PathSegment& segment) { return segment.end - segment.begin; }

}  // namespace

TEST_CASE("the critical path fills the step without gaps and ends with it") {
  for (const ToyPipeline& pipeline : pipelines())
    for (const std::int64_t launch_cost : {0, 3, 900})
      for (const std::int64_t window : {1, 2, 256}) {
        Evaluated one;
        one.launch_cost = launch_cost;
        one.transfer = 11;
        one.options.steps = 8;
        one.options.window = window;
        evaluate_pipeline(one, pipeline);
        const TapeTimes times = one.times(one.durations);
        const Duration step = times.step_end[7] - times.step_end[6];
        const CriticalPath path = one.path();
        REQUIRE(path.steady);
        REQUIRE(!path.segments.empty());
        CHECK(path.segments.front().begin == Time());
        CHECK(path.segments.back().end == step);
        Duration sum;
        for (std::size_t i = 0; i < path.segments.size(); ++i) {
          sum += length(path.segments[i]);
          if (i > 0) CHECK(path.segments[i].begin == path.segments[i - 1].end);
        }
        CHECK(sum == step);
      }
}

TEST_CASE("a launch on the critical path that takes longer makes the step longer") {
  for (const ToyPipeline& pipeline : pipelines()) {
    Evaluated one;
    one.options.steps = 12;
    one.transfer = 11;
    evaluate_pipeline(one, pipeline);
    const TapeTimes times = one.times(one.durations);
    for (const PathSegment& segment : one.path().segments) {
      if (segment.part != PathPart::kCompute || length(segment) == Duration()) continue;
      std::vector<Duration> longer = one.durations;
      longer[static_cast<std::size_t>(segment.entry)] += Duration(50);
      CHECK(one.times(longer).step_end.back() >= times.step_end.back() + Duration(50));
    }
  }
}

TEST_CASE("slack is what a launch of one step may take longer, and not a picosecond more") {
  for (const ToyPipeline& pipeline : pipelines()) {
    Evaluated one;
    one.options.steps = 1;
    one.launch_cost = 7;
    one.transfer = 11;
    evaluate_pipeline(one, pipeline);
    const Time end = one.times(one.durations).step_end[0];
    const CriticalPath path = one.path();
    CHECK(!path.steady);
    for (std::size_t e = 0; e < one.tape.entries.size(); ++e) {
      if (one.tape.entries[e].meeting.is_valid()) continue;
      std::vector<Duration> longer = one.durations;
      longer[e] += path.slack[e];
      CHECK(one.times(longer).step_end[0] == end);
      longer[e] += Duration(1);
      CHECK(one.times(longer).step_end[0] == end + Duration(1));
    }
  }
}

TEST_CASE("what the host bounds is a path of launches") {
  ToyProgram program{"short", {}, {}};
  for (const char* name : {"a", "b", "c"}) {
    program.ops.push_back({name, QueueRole::kCompute, 10, {}});
    program.order.push_back({name});
  }
  Evaluated one;
  one.launch_cost = 100;
  one.options.steps = 6;
  one.graph = make_toy_graph({program}, {{0, {}}}, {});
  one.tape = testing::record_all_ranks(one.graph);
  one.durations = entry_durations(one.tape, one.graph, ToyCost(100));
  const CriticalPath path = one.path();
  Duration host;
  for (const PathSegment& segment : path.segments)
    if (segment.part == PathPart::kHost) host += length(segment);
  CHECK(host == Duration(290));
}

TEST_CASE("times of another tape are refused") {
  Evaluated one;
  evaluate_pipeline(one, pipelines()[0]);
  TapeTimes times = one.times(one.durations);
  times.begin.pop_back();
  CHECK_THROWS(critical_path(one.tape, times, ToyNetwork(), Duration(), one.options));
}

}  // namespace sextant::critical_path_test
