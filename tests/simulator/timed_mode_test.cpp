// Timed mode: equal to the stepped actors where nothing contends, never earlier than the tape, and
// contention worked out by hand.

#include "simulator/modes/timed_mode.h"

#include "core/base/error.h"
#include "simulator/modes/jobs.h"
#include "simulator/modes/simulate.h"
#include "tests/simulator/toy_graph.h"
#include "tests/simulator/toy_pipeline.h"

#include <doctest/doctest.h>

#include <algorithm>

namespace sextant::timed_mode_test {
namespace {

// Collectives take a latency and a picosecond per byte, transfers what they are told to. They load
// one link per member ("device 3") and one that all share ("bus"), by as many bytes as they last
// picoseconds: a link of 1 B/ps is full with one of them.
class LinkedNetwork : public NetworkModel {
 public:
  struct Wires {
    double per_device = 1e12, bus = 1e12;  // B/s
    std::int64_t devices = 16;
    Duration latency;
    Duration transfer{13};
    bool members_differ = false;  // the last of a group is over a little later
  };
  explicit LinkedNetwork(const Wires& wires) : wires_(wires) {
    for (std::int64_t device = 0; device < wires.devices; ++device)
      links_.push_back({"device " + std::to_string(device), wires.per_device});
    links_.push_back({"bus", wires.bus});
  }
  Duration duration(const CollectiveCost& cost) const override {
    if (cost.communication->primitive == Primitive::kTransfer)
      return wires_.latency + wires_.transfer;
    return wires_.latency + Duration(cost.global_bytes.value);
  }
  void complete(const CollectiveCost& cost, std::span<const Time> arrivals,
                std::span<Time> done) const override {
    const Time end = *std::max_element(arrivals.begin(), arrivals.end()) + duration(cost);
    std::fill(done.begin(), done.end(), end);
    if (wires_.members_differ) done.back() += Duration(3);
  }
  bool completes_together() const override { return !wires_.members_differ; }
  std::span<const SharedLink> links() const override { return links_; }
  void demand(const CollectiveCost& cost, NetworkDemand& out) const override {
    out.latency = wires_.latency;
    out.loads.clear();
    const auto bytes = static_cast<double>((duration(cost) - wires_.latency).value);
    if (bytes == 0) return;
    for (const Rank member : cost.members) out.loads.push_back({member.value, bytes});
    out.loads.push_back({static_cast<std::int32_t>(wires_.devices), bytes});
  }

 private:
  Wires wires_;
  std::vector<SharedLink> links_;
};

constexpr double kWide = 1e18;

ToyPipeline pipeline_of(ToySchedule schedule, std::int32_t replicas, bool launch_groups) {
  ToyPipeline pipeline{{70, 110, 50, 90}, {130, 90, 170, 110}};
  if (launch_groups) pipeline = ToyPipeline{{100, 100, 100, 100}, {100, 100, 100, 100}};
  pipeline.micro_batches = 7;
  pipeline.replicas = replicas;
  pipeline.schedule = schedule;
  pipeline.optimizer = 40;
  pipeline.gradient_bytes = 60;
  pipeline.launch_groups = launch_groups;
  if (schedule == ToySchedule::kOneFOneB) pipeline.activation_registers = 4;
  return pipeline;
}

std::vector<PhysicalGraph> graphs() {
  std::vector<PhysicalGraph> result;
  for (const ToySchedule schedule : {ToySchedule::kGPipe, ToySchedule::kOneFOneB})
    for (const std::int32_t replicas : {1, 2, 4})
      for (const bool launch_groups : {false, true})
        result.push_back(make_toy_pipeline(pipeline_of(schedule, replicas, launch_groups)));
  return result;
}

Timeline run(const PhysicalGraph& graph, const NetworkModel& network, SimulateOptions options,
             SimulationMode mode, std::int64_t launch_cost = 9) {
  options.mode = mode;
  options.seed = 42;
  options.steps = 6;
  if (mode != SimulationMode::kTimed) options.overlap.clear();
  return simulate_timeline(graph, ToyCost(launch_cost), network, options);
}

std::vector<TimedRun> by_run(const RankTimeline& rank) {
  std::vector<TimedRun> runs = rank.runs;
  std::sort(runs.begin(), runs.end(),
            [](const TimedRun& x, const TimedRun& y) { return x.run < y.run; });
  return runs;
}

void check_equal(const Timeline& a, const Timeline& b) {
  CHECK(a.step_end == b.step_end);
  REQUIRE(a.ranks.size() == b.ranks.size());
  for (std::size_t rank = 0; rank < a.ranks.size(); ++rank) {
    const auto left = by_run(a.ranks[rank]), right = by_run(b.ranks[rank]);
    REQUIRE(left.size() == right.size());
    for (std::size_t i = 0; i < left.size(); ++i) {
      REQUIRE(left[i].run == right[i].run);
      REQUIRE(left[i].issued == right[i].issued);
      REQUIRE(left[i].arrived == right[i].arrived);
      REQUIRE(left[i].begin == right[i].begin);
      REQUIRE(left[i].end == right[i].end);
    }
  }
}

TEST_CASE("timed equals step to the picosecond where nothing contends, with jitter and windows") {
  for (const PhysicalGraph& graph : graphs())
    for (const bool has_links : {false, true})
      for (const bool members_differ : {false, true})
        for (const double jitter : {0.0, 0.2})
          for (const std::int64_t window : {1, 2, 5, 256})
            for (const std::int64_t launch_cost : {0, 9}) {
              LinkedNetwork::Wires wires{kWide,       kWide,        16,
                                         Duration(5), Duration(13), members_differ};
              if (!has_links) wires.devices = 0;
              const LinkedNetwork linked(wires);
              const ToyNetwork plain(13);
              const NetworkModel& network =
                  has_links ? static_cast<const NetworkModel&>(linked) : plain;
              SimulateOptions options;
              options.jitter = jitter;
              options.window = window;
              options.folded = jitter == 0;
              CAPTURE(window);
              CAPTURE(jitter);
              check_equal(run(graph, network, options, SimulationMode::kTimed, launch_cost),
                          run(graph, network, options, SimulationMode::kStep, launch_cost));
            }
}

// Networks in which much contends, and devices on which kernels and communications meet.
std::vector<LinkedNetwork::Wires> narrow_wires() {
  return {{1e12, 1e12, 16, Duration(0), Duration(13), false},
          {1e12, 2e12, 16, Duration(5), Duration(50), false},
          {1e12, 1.5e12, 16, Duration(2), Duration(40), true},
          {1.3e12, kWide, 16, Duration(0), Duration(90), false}};
}

std::vector<OverlapShares> shares_of(const PhysicalGraph& graph, int kind) {
  if (kind == 0) return {};
  std::vector<OverlapShares> shares(graph.ranks.size(), {0.75, 0.5});
  if (kind == 2) shares[0] = {1, 0.25};
  return shares;
}

TEST_CASE("nothing in timed mode is earlier than on the tape, contention and overlap or not") {
  std::int64_t later = 0;
  for (const PhysicalGraph& graph : graphs())
    for (const LinkedNetwork::Wires& wires : narrow_wires())
      for (const int overlap : {0, 1, 2})
        for (const double jitter : {0.0, 0.2}) {
          const LinkedNetwork network(wires);
          SimulateOptions options;
          options.folded = false;
          options.jitter = jitter;
          options.overlap = shares_of(graph, overlap);
          const Timeline timed = run(graph, network, options, SimulationMode::kTimed);
          const Timeline tape = run(graph, network, options, SimulationMode::kTape);
          REQUIRE(timed.ranks.size() == tape.ranks.size());
          for (std::size_t rank = 0; rank < timed.ranks.size(); ++rank) {
            const auto left = by_run(tape.ranks[rank]), right = by_run(timed.ranks[rank]);
            for (std::size_t i = 0; i < left.size(); ++i) {
              REQUIRE(left[i].begin <= right[i].begin);
              REQUIRE(left[i].end <= right[i].end);
              later += left[i].end < right[i].end ? 1 : 0;
            }
          }
        }
  CHECK(later > 10000);
}

TEST_CASE("the last step reported contends with the next as all steps before it do") {
  for (const PhysicalGraph& graph : graphs()) {
    const LinkedNetwork network(LinkedNetwork::Wires{});  // each link is full with one
    SimulateOptions options;
    options.mode = SimulationMode::kTimed;
    options.steps = 4;
    const Timeline few = simulate_timeline(graph, ToyCost(9), network, options);
    options.steps = 9;
    const Timeline many = simulate_timeline(graph, ToyCost(9), network, options);
    CHECK(std::equal(few.step_end.begin(), few.step_end.end(), many.step_end.begin()));
  }
}

TEST_CASE("folded ranks, groups and links have the times of all that they stand for") {
  std::int64_t folded_ranks = 0, all_ranks = 0;
  for (const PhysicalGraph& graph : graphs())
    for (const LinkedNetwork::Wires& wires : narrow_wires())
      for (const int overlap : {0, 1, 2}) {
        const LinkedNetwork network(wires);
        SimulateOptions options;
        options.overlap = shares_of(graph, overlap);
        const Timeline folded = run(graph, network, options, SimulationMode::kTimed);
        options.folded = false;
        const Timeline all = run(graph, network, options, SimulationMode::kTimed);
        CHECK(folded.step_end == all.step_end);
        folded_ranks += static_cast<std::int64_t>(folded.ranks.size());
        all_ranks += static_cast<std::int64_t>(all.ranks.size());
        for (const RankTimeline& one : folded.ranks) {
          const auto left = by_run(one), right = by_run(all.ranks[one.rank.index()]);
          for (std::size_t i = 0; i < left.size(); ++i) {
            REQUIRE(left[i].begin == right[i].begin);
            REQUIRE(left[i].end == right[i].end);
          }
        }
      }
  CHECK(2 * folded_ranks < 1.3 * static_cast<double>(all_ranks));
}

// ---------------------------------------------------------------- by hand

// Ranks 0 and 1 reduce `first` bytes, ranks 2 and 3 `second`, after a kernel of 10 and one of 30.
PhysicalGraph two_pairs(std::int64_t first, std::int64_t second) {
  std::vector<ToyProgram> programs;
  for (int pair = 0; pair < 2; ++pair)
    programs.push_back({"pair" + std::to_string(pair),
                        {{"kernel", QueueRole::kCompute, pair == 0 ? 10 : 30},
                         {"reduce",
                          QueueRole::kCollective,
                          0,
                          {{"kernel"}},
                          ToyCommunication{Primitive::kAllReduce, Side::kBoth, "pair",
                                           pair == 0 ? first : second}}},
                        {{"kernel"}, {"reduce"}}});
  return make_toy_graph(
      programs,
      {{0, {{"pair", "a"}}}, {0, {{"pair", "a"}}}, {1, {{"pair", "b"}}}, {1, {{"pair", "b"}}}},
      {{"a", {0, 1}}, {"b", {2, 3}}});
}

std::vector<Time> ends_of(const Timeline& timeline, std::size_t rank) {
  std::vector<Time> ends;
  for (const TimedRun& run : by_run(timeline.ranks[rank])) ends.push_back(run.end);
  return ends;
}

Timeline one_step(const PhysicalGraph& graph, const NetworkModel& network, bool folded,
                  std::vector<OverlapShares> overlap = {}) {
  SimulateOptions options;
  options.mode = SimulationMode::kTimed;
  options.steps = 1;
  options.folded = folded;
  options.overlap = std::move(overlap);
  return simulate_timeline(graph, ToyCost(), network, options);
}

// A begins at 10, B at 30 on the bus of 1 B/ps. A has 80 of its 100 left; at half rate B's 50 are
// over at 130, A's other 30 at 160.
TEST_CASE("two reductions on one bus take half of it each while both run") {
  const PhysicalGraph graph = two_pairs(100, 50);
  const LinkedNetwork network({.devices = 4, .latency = {}});
  for (const bool folded : {true, false}) {
    const Timeline timeline = one_step(graph, network, folded);
    CHECK(timeline.ranks.size() == (folded ? 2 : 4));
    CHECK(ends_of(timeline, 0) == std::vector<Time>{Time(10), Time(160)});
    CHECK(ends_of(timeline, folded ? 1 : 2) == std::vector<Time>{Time(30), Time(130)});
  }
}

// With a latency of 40, A moves bytes from 50 and B from 70 on: 80 and 50 left, B over at 170, A at
// 200.
TEST_CASE("the latency of a collective passes whatever else runs") {
  const PhysicalGraph graph = two_pairs(100, 50);
  const LinkedNetwork network({.devices = 4, .latency = Duration(40)});
  const Timeline timeline = one_step(graph, network, true);
  CHECK(ends_of(timeline, 0).back() == Time(200));
  CHECK(ends_of(timeline, 1).back() == Time(170));
}

// A wider bus of 1.5 B/ps: 3/4 of the rate each. From 30 on 80 and 50 are left; B is over after
// 50 / 0.75 = 66.7, at 97, rounded up; A has 80 - 67 * 0.75 = 29.75 left, over at 127.
TEST_CASE("completions of slowed collectives are rounded up") {
  const PhysicalGraph graph = two_pairs(100, 50);
  const LinkedNetwork network({.bus = 1.5e12, .devices = 4, .latency = {}});
  const Timeline timeline = one_step(graph, network, true);
  CHECK(ends_of(timeline, 1).back() == Time(97));
  CHECK(ends_of(timeline, 0).back() == Time(127));
}

// A kernel of 100 begins at 10 beside a reduction of 60 that begins at 10: at 3/4 and 1/2. The
// reduction is over at 10 + 120 = 130; the kernel, 90 of 100 done then, at 140.
TEST_CASE("kernels and communications of one device slow each other down") {
  const ToyProgram program{"one",
                           {{"first", QueueRole::kCompute, 10},
                            {"reduce",
                             QueueRole::kCollective,
                             0,
                             {{"first"}},
                             ToyCommunication{Primitive::kAllReduce, Side::kBoth, "all", 60}},
                            {"second", QueueRole::kCompute, 100}},
                           {{"first"}, {"reduce"}, {"second"}}};
  const PhysicalGraph graph =
      make_toy_graph({program}, {{0, {{"all", "all"}}}, {0, {{"all", "all"}}}}, {{"all", {0, 1}}});
  const LinkedNetwork network({.devices = 2, .latency = {}});
  for (const bool folded : {true, false}) {
    const Timeline timeline =
        one_step(graph, network, folded, std::vector<OverlapShares>(2, {0.75, 0.5}));
    CHECK(ends_of(timeline, 0) == std::vector<Time>{Time(10), Time(130), Time(140)});
  }
  // The other rank's kernel is as good: rank 0 alone is slowed by nothing of its own.
  const Timeline timeline = one_step(graph, network, false, {{1, 1}, {1, 0.5}});
  CHECK(ends_of(timeline, 0) == std::vector<Time>{Time(10), Time(120), Time(110)});
}

TEST_CASE("timed mode refuses a network that ends a member before the last has arrived") {
  class Early : public ToyNetwork {
   public:
    void complete(const CollectiveCost&, std::span<const Time> arrivals,
                  std::span<Time> done) const override {
      std::copy(arrivals.begin(), arrivals.end(), done.begin());
    }
    bool completes_together() const override { return false; }
  };
  ToyPipeline pipeline = pipeline_of(ToySchedule::kGPipe, 1, false);
  SimulateOptions options;
  options.mode = SimulationMode::kTimed;
  CHECK_THROWS_AS(simulate_timeline(make_toy_pipeline(pipeline), ToyCost(), Early(), options),
                  Error);
}

TEST_CASE("jobs on links of their own run as if alone, on shared links none is faster") {
  const PhysicalGraph first = make_toy_pipeline(pipeline_of(ToySchedule::kOneFOneB, 2, false));
  const PhysicalGraph second = make_toy_pipeline(pipeline_of(ToySchedule::kGPipe, 2, true));
  std::int64_t slower = 0;
  for (const std::int32_t offset : {0, 4, 8})
    for (const double bus : {kWide, 1.5e12}) {
      LinkedNetwork::Wires wires;
      wires.bus = bus;
      wires.latency = Duration(2);
      const LinkedNetwork network(wires);
      SimulateOptions options;
      options.mode = SimulationMode::kTimed;
      options.folded = false;
      const std::vector<Job> jobs{{&first, 0}, {&second, offset}};
      const std::vector<Timeline> together = simulate_jobs(jobs, ToyCost(9), network, options);
      for (std::size_t j = 0; j < jobs.size(); ++j) {
        const std::vector<Job> alone{jobs[j]};
        const Timeline own = simulate_jobs(alone, ToyCost(9), network, options).front();
        check_equal(own, simulate_timeline(*jobs[j].graph, ToyCost(9), network, options));
        if (offset == 8 && bus == kWide) check_equal(together[j], own);
        for (std::size_t step = 0; step < own.step_end.size(); ++step)
          CHECK(together[j].step_end[step] >= own.step_end[step]);
        slower += together[j].step_end.back() > own.step_end.back() ? 1 : 0;
      }
    }
  CHECK(slower >= 6);
}

TEST_CASE("overlap shares without timed mode are refused") {
  SimulateOptions options;
  options.overlap.resize(4);
  CHECK_THROWS_AS(simulate_timeline(two_pairs(1, 1), ToyCost(), ToyNetwork(), options), Error);
}

}  // namespace
}  // namespace sextant::timed_mode_test
