// Recordings: what a device does is noted, read again as written, repeated to the picosecond, and
// what does not fit is refused by name.

#include "simulator/recordings/recording.h"

#include "actor/runtime.h"
#include "core/base/error.h"
#include "simulator/modes/sim_device.h"
#include "simulator/modes/simulate.h"
#include "simulator/recordings/divergence.h"
#include "simulator/recordings/recording_device.h"
#include "simulator/recordings/replay.h"
#include "simulator/reports/chrome_trace.h"
#include "tests/simulator/toy_graph.h"
#include "tests/simulator/toy_pipeline.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <vector>

namespace sextant::recording_test {
namespace {

// Durations of whole nanoseconds, which a file keeps.
constexpr std::int64_t kNanosecond = 1'000;

PhysicalGraph small_pipeline() {
  ToyPipeline pipeline{{70 * kNanosecond, 110 * kNanosecond, 50 * kNanosecond},
                       {130 * kNanosecond, 90 * kNanosecond, 170 * kNanosecond}};
  pipeline.micro_batches = 4;
  pipeline.replicas = 2;
  pipeline.gradient_bytes = 60 * kNanosecond;
  return make_toy_pipeline(pipeline);
}

// A run on simulated devices as if it were a real one: a launch thread per rank.
Recording recorded(const PhysicalGraph& graph, std::int64_t steps, double jitter = 0) {
  const ToyCost cost;
  const ToyNetwork network(11 * kNanosecond);
  Fabric fabric(graph, network, all_ranks(graph));
  SimDeviceOptions options;
  options.jitter = jitter;
  options.seed = 5;
  options.thread_per_rank = true;
  std::vector<std::unique_ptr<SimDevice>> devices;
  std::vector<std::unique_ptr<RecordingDevice>> recording_devices;
  std::vector<Device*> pointers;
  for (const Rank rank : graph.ranks.keys()) {
    devices.push_back(std::make_unique<SimDevice>(fabric, cost, options));
    recording_devices.push_back(
        std::make_unique<RecordingDevice>(*devices.back(), rank, [] { return Time(); }));
    pointers.push_back(recording_devices.back().get());
  }
  prepare_all(graph, pointers);
  IdleHostActors idle;
  RecordingHost host(idle, [] { return Time(); });
  run_all(graph, pointers, host, steps);
  Recording recording;
  recording.header = {"abc",
                      "pp=3 dp=2",
                      "6 toys",
                      static_cast<std::int64_t>(graph.ranks.size()),
                      steps,
                      1,
                      ArenaRoom{Bytes(7), Bytes(2)}};
  for (const auto& device : recording_devices)
    for (RecordedLaunch& launch : device->launches()) recording.launches.push_back(launch);
  recording.host_acts = host.acts();
  return recording;
}

std::string text_of(const Recording& recording) {
  const std::string lines = recording_lines(recording.launches, recording.host_acts);
  return recording_text(recording.header, std::array{lines});
}

std::string refusal(const std::string& text) {
  try {
    recording_from_text(text, "run.rec");
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::kBadInput);
    return error.what();
  }
  return "";
}

bool says(const std::string& text, const std::string& part) {
  const bool holds = text.find(part) != std::string::npos;
  if (!holds) MESSAGE("'" << part << "' is not in: " << text);
  return holds;
}

std::string changed(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

RecordedLaunch& launch_at(Recording& recording, Rank rank, std::size_t index) {
  for (RecordedLaunch& launch : recording.launches)
    if (launch.rank == rank && index-- == 0) return launch;
  throw Error(ErrorCode::kInternal, "no such launch");
}

TEST_CASE("a recording is read as it was written") {
  Recording recording = recorded(small_pipeline(), 3);
  recording.host_acts = {
      {Rank(1), "a \"quoted\" name", 2, 3, Time(4 * kNanosecond), Time(9 * kNanosecond)}};
  const Recording read = recording_from_text(text_of(recording), "run.rec");
  CHECK(read.header == recording.header);
  CHECK(read.launches == recording.launches);
  CHECK(read.host_acts == recording.host_acts);
  recording.header.room.reset();
  CHECK(!recording_from_text(text_of(recording), "run.rec").header.room);
}

TEST_CASE("every cut of a recording is refused") {
  const std::string text = text_of(recorded(small_pipeline(), 1));
  // Whole lines missing at the end, parts of lines, nothing at all.
  for (std::size_t size = 0; size < text.size(); size += size < 600 ? 1 : 97)
    CHECK(refusal(text.substr(0, size)).starts_with("run.rec"));
  CHECK(says(refusal(text.substr(0, text.rfind("{\"end\""))), "the file is cut"));
  const std::size_t line = text.find('\n', text.size() / 2);
  CHECK(says(refusal(text.substr(0, line + 1) + text.substr(text.find('\n', line + 1) + 1)),
             "lines were written"));
  CHECK(says(refusal(text + "{}\n"), "something stands behind the last line"));
}

TEST_CASE("a recording of another version or with impossible numbers is refused by line") {
  const std::string text = text_of(recorded(small_pipeline(), 1));
  CHECK(says(refusal(changed(text, "recording.v1", "recording.v2")), "sextant.recording.v2"));
  CHECK(says(refusal("{\"strategy\": \"dp=2\"}\n"), "no recording of a run"));
  CHECK(says(refusal("[1]\n"), "no recording of a run"));
  CHECK(says(refusal(changed(text, "[0, 0, 0]", "[6, 0, 0]")), "line 2"));
  CHECK(says(refusal(changed(text, "[0, 0, 0]", "[0, 1, 0]")), "launch[1]"));
  CHECK(says(refusal(changed(text, "[0, 0, 0]", "[0, 0]")), "2 numbers, wanted 3"));
  CHECK(says(refusal(changed(text, "\"compute\"", "\"computer\"")), "'computer' is no queue"));
  CHECK(says(refusal(changed(text, "\"at\": [0, ", "\"at\": [999999999, ")), "times that go back"));
}

TEST_CASE("a replay has every time of the recording") {
  const PhysicalGraph graph = small_pipeline();
  for (const double jitter : {0.0, 0.3}) {
    const Recording recording = recorded(graph, 4, jitter);
    for (std::int64_t step = 0; step < 4; ++step) {
      const ReplayedRun run = replay(graph, recording, {.start_delays = true, .step = step});
      CHECK(run.early.launches == 0);
      CHECK(run.waits.launches == 0);
      std::size_t launches = 0;
      for (const RankTimeline& rank : run.timeline.ranks)
        for (const TimedRun& timed : rank.runs)
          for (const RecordedLaunch& was : recording.launches) {
            if (was.rank != rank.rank || was.run != timed.run || was.step != step) continue;
            CHECK(timed.begin == was.begin);
            CHECK(timed.end == was.end);
            ++launches;
          }
      CHECK(launches * 4 == recording.launches.size());
      CHECK(run.timeline.step_time() == step_times(recording)[static_cast<std::size_t>(step)]);
    }
  }
}

TEST_CASE("without start delays a replay is never later, and not by what was late") {
  const PhysicalGraph graph = small_pipeline();
  Recording recording = recorded(graph, 3);
  const ReplayedRun at_once = replay(graph, recording, {.start_delays = false});
  const ReplayedRun as_it_was = replay(graph, recording);
  CHECK(as_it_was.timeline.step_time() == median_step_time(recording));
  for (std::size_t step = 0; step < 3; ++step)
    CHECK(at_once.step_end[step] <= as_it_was.step_end[step]);
  // The toys' host costs nothing and wakes up at once, so there is nothing to gain...
  CHECK(at_once.step_end.back() == as_it_was.step_end.back());
  // ...until the host is a second late with everything.
  for (RecordedLaunch& launch : recording.launches)
    for (Time* time : {&launch.issued, &launch.begin, &launch.end})
      *time += Time(kPicosecondsPerSecond);
  CHECK(replay(graph, recording, {.start_delays = false}).step_end == at_once.step_end);
  CHECK(replay(graph, recording).step_end.back() ==
        as_it_was.step_end.back() + Time(kPicosecondsPerSecond));
}

TEST_CASE("a launch that began before its waits were over is named") {
  const PhysicalGraph graph = small_pipeline();
  Recording recording = recorded(graph, 2);
  // The second launch of rank 0 on its queue, moved before the first's end.
  RecordedLaunch& launch = launch_at(recording, Rank(0), 1);
  launch.begin = Time(1 * kNanosecond);
  const ReplayedRun run = replay(graph, recording);
  CHECK(run.early.launches == 1);
  CHECK(says(run.early.first, "rank 0, step 0, run 1"));
}

TEST_CASE("messages that the actors do not have are named") {
  const PhysicalGraph graph = small_pipeline();
  Recording recording = recorded(graph, 2);
  const auto waiting =
      std::find_if(recording.launches.begin(), recording.launches.end(),
                   [](const RecordedLaunch& launch) { return !launch.waits.empty(); });
  REQUIRE(waiting != recording.launches.end());
  waiting->waits.pop_back();
  const ReplayedRun run = replay(graph, recording);
  CHECK(run.waits.launches == 1);
  CHECK(says(run.waits.first, "waited for"));
}

TEST_CASE("launches that are not the plan's are refused at the first of them") {
  const PhysicalGraph graph = small_pipeline();
  const Recording good = recorded(graph, 2);
  CHECK(!order_difference(graph, good));
  Recording swapped = good;
  std::swap(launch_at(swapped, Rank(2), 3), launch_at(swapped, Rank(2), 4));
  CHECK(says(order_difference(graph, swapped).value(), "rank 2, launch 3"));
  Recording missing = good;
  missing.launches.pop_back();
  CHECK(says(order_difference(graph, missing).value(), "the recording ends"));
  Recording more = good;
  more.launches.push_back(more.launches.back());
  CHECK(says(order_difference(graph, more).value(), "the plan issues"));
  Recording fewer = good;
  fewer.header.ranks = 5;
  std::erase_if(fewer.launches,
                [](const RecordedLaunch& launch) { return launch.rank == Rank(5); });
  CHECK(says(order_difference(graph, fewer).value(), "recorded are 5 ranks, the plan has 6"));
  CHECK_THROWS_AS(replay(graph, missing), Error);
}

TEST_CASE("a run that is as predicted leaves the plan nowhere, and a slow launch is found") {
  const PhysicalGraph graph = small_pipeline();
  SimulateOptions options;
  options.folded = false;
  options.steps = 3;
  const ToyCost cost;
  const Timeline plan = simulate_timeline(graph, cost, ToyNetwork(11 * kNanosecond), options);
  const Recording good = recorded(graph, 3);
  const ReplayedRun as_planned = replay(graph, good, {.step = 2});
  CHECK(!first_divergence(plan, as_planned.timeline, 0.0));
  const auto kinds = launch_times(graph, plan, as_planned.timeline, [&graph](Rank rank, RunId run) {
    return kind_of_launch(graph, rank, run);
  });
  CHECK(kinds.size() > 2);
  for (const LaunchTimes& kind : kinds) {
    CHECK(kind.predicted == kind.recorded);
    CHECK(kind.predicted_wait == kind.recorded_wait);
  }

  // One launch takes ten times as long. Everything behind it is late as well; it is the first.
  Recording slow = good;
  const auto per_step = graph.program_of(Rank(3)).order.size();
  RecordedLaunch& launch = launch_at(slow, Rank(3), 2 * per_step + 2);
  const Duration more = (launch.end - launch.begin) * 9;
  const Time from = launch.end;
  for (RecordedLaunch& other : slow.launches) {
    if (&other == &launch || other.begin < from) continue;
    other.begin += more;
    other.end += more;
  }
  launch.end += more;
  const auto found = first_divergence(plan, replay(graph, slow, {.step = 2}).timeline, 0.01);
  REQUIRE(found);
  CHECK(found->rank == Rank(3));
  CHECK(found->run == launch.run);
  CHECK(found->late() == more);
  CHECK(found->cause == DelayCause::kItself);
}

TEST_CASE("a plan and a run stand side by side in one trace, each rank with both") {
  const PhysicalGraph graph = small_pipeline();
  const auto slices = run_slices(graph, replay(graph, recorded(graph, 2)).timeline);
  const std::string trace =
      to_chrome_trace(std::array{NamedSlices{"plan", slices}, NamedSlices{"run", slices}});
  for (int rank = 0; rank < 6; ++rank)
    for (const std::string name : {"plan", "run"})
      CHECK(says(trace, "\"rank " + std::to_string(rank) + ": " + name + "\""));
  const auto lanes = [&trace](int process) {
    std::size_t count = 0;
    const std::string lane =
        "{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":" + std::to_string(process) + ",";
    for (std::size_t at = trace.find(lane); at != std::string::npos; at = trace.find(lane, at + 1))
      ++count;
    return count;
  };
  for (int rank = 0; rank < 6; ++rank) {
    CHECK(lanes(2 * rank) > 0);
    CHECK(lanes(2 * rank) == lanes(2 * rank + 1));
  }
}

}  // namespace
}  // namespace sextant::recording_test
