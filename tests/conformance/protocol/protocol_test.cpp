// One suite on every device: the numbers of the dataflow oracle, and the same issue on all.
#include "actor/protocol/dry_run.h"
#include "actor/tapes/tape.h"
#include "core/base/error.h"
#include "simulator/modes/sim_device.h"
#include "tests/conformance/protocol/cpu_mix_devices.h"
#include "tests/conformance/protocol/protocol_suite.h"
#include "tests/conformance/protocol/replaying_devices.h"
#include "tests/support/pipeline_graph.h"

#include <doctest/doctest.h>

#include <atomic>

namespace sextant::protocol_test {
using namespace testing;

namespace {

CpuOptions options_of(CpuQueueKind queues, std::uint64_t seed = 0) {
  CpuOptions options;
  options.queues = queues;
  options.seed = seed;
  options.max_delay_us = 100;
  options.rendezvous_timeout_ms = 20'000;
  return options;
}

class FreeCost : public CostModel {
 public:
  Duration duration(const Work&) const override { return Duration(10); }
  Duration launch_cost() const override { return Duration(1); }
};
class FreeNetwork : public NetworkModel {
 public:
  void complete(const CollectiveCost&, std::span<const Time> arrivals,
                std::span<Time> done) const override {
    const Time last = *std::max_element(arrivals.begin(), arrivals.end());
    std::fill(done.begin(), done.end(), last + Duration(5));
  }
  Duration duration(const CollectiveCost&) const override { return Duration(5); }
};

// The simulator's devices issue from one thread, in the dry run's order.
std::vector<IssueHash> simulated_hashes(const PhysicalGraph& graph, std::int64_t steps) {
  const FreeCost cost;
  const FreeNetwork network;
  Fabric fabric(graph, network, all_ranks(graph));
  std::vector<std::unique_ptr<SimDevice>> devices;
  std::vector<RankRuntime> runtimes;
  IdleHostActors host;
  for (const Rank rank : graph.ranks.keys()) {
    devices.push_back(std::make_unique<SimDevice>(fabric, cost));
    devices.back()->prepare(graph, rank);
    runtimes.emplace_back(graph, rank, *devices.back(), host);
  }
  const DryRun dry = dry_run(graph, RankScope::kAllRanks);
  for (std::int64_t step = 0; step < steps; ++step) {
    for (const Issue& issue : dry.order) runtimes[issue.rank.index()].issue_next();
  }
  std::vector<IssueHash> hashes;
  for (const RankRuntime& runtime : runtimes) hashes.push_back(runtime.hash());
  return hashes;
}

// All ranks stop behind every second step.
class EverySecondStep final : public StepBoundaries {
 public:
  std::int64_t next(std::int64_t steps) const override { return steps - steps % 2 + 2; }
  void at(Rank, Device&, std::int64_t) override { ++stops_; }
  std::int64_t stops() const { return stops_; }

 private:
  std::atomic<std::int64_t> stops_{0};
};

}  // namespace

TEST_CASE("inline, asynchronous and stress queues give the oracle's numbers and issue alike") {
  constexpr std::int64_t kSteps = 3;
  for (const NamedGraph& named : pipeline_graphs()) {
    INFO(named.name);
    const MixResult expected = mix_oracle(named.graph, kSteps);
    REQUIRE(!expected.state.empty());
    REQUIRE(!expected.records.empty());
    const std::vector<IssueHash> simulated = simulated_hashes(named.graph, kSteps);
    for (const CpuQueueKind queues :
         {CpuQueueKind::kInline, CpuQueueKind::kAsynchronous, CpuQueueKind::kStress}) {
      const ProtocolRun run =
          run_protocol(named.graph, cpu_mix_devices(options_of(queues)), kSteps);
      CHECK(run.result == expected);
      CHECK(run.hashes == simulated);
    }
  }
}

TEST_CASE("replayed steps and several steps' host buffers change no number and no issue") {
  constexpr std::int64_t kSteps = 6;
  std::vector<NamedGraph> graphs = pipeline_graphs();
  // A loader of many contents and few registers: a step is launched when all of them are there.
  graphs.push_back({"many micro-batches",
                    pipeline_graph({.stages = 1, .micro_batches = 9, .host_actors = true})});
  // A loader that reads what another host actor makes, beside the step.
  for (const int micro_batches : {1, 3})
    graphs.push_back({"a loader behind a source", pipeline_graph({.stages = 1,
                                                                  .micro_batches = micro_batches,
                                                                  .host_actors = true,
                                                                  .data_actors = true})});
  for (const NamedGraph& named : graphs) {
    INFO(named.name);
    const MixResult expected = mix_oracle(named.graph, kSteps);
    const DeviceFactory inline_devices = cpu_mix_devices(options_of(CpuQueueKind::kInline));
    const ProtocolRun plain = run_protocol(named.graph, inline_devices, kSteps);
    for (const bool capture : {false, true}) {
      for (const std::int32_t host_steps : {1, 2}) {
        std::atomic<std::int64_t> replays{0};
        const ProtocolRun run = run_protocol(
            named.graph, replaying_devices(inline_devices, {capture, host_steps, &replays}),
            kSteps);
        CHECK(run.result == expected);
        CHECK(run.hashes == plain.hashes);
        // All but the first two steps, where no host actor waits for a fence of the same step.
        const auto ranks = static_cast<std::int64_t>(named.graph.ranks.size());
        if (!capture) CHECK(replays == 0);
        if (capture && host_steps == 2) CHECK(replays == ranks * (kSteps - 2));
        EverySecondStep boundaries;
        const ProtocolRun stopped = run_protocol(
            named.graph, replaying_devices(inline_devices, {capture, host_steps, nullptr}), kSteps,
            {}, &boundaries);
        CHECK(stopped.result == expected);
        CHECK(stopped.hashes == plain.hashes);
        CHECK(boundaries.stops() == ranks * kSteps / 2);
      }
    }
  }
}

TEST_CASE("a reader that is slow stops the launches two steps on, not before") {
  class SlowReader final : public HostActors {
   public:
    void act(const HostAct& act) override {
      if (act.inputs.empty()) {
        last_load = std::max<std::int64_t>(last_load, act.step);
        return;
      }
      furthest = std::max<std::int64_t>(furthest, last_load - act.step);
    }
    std::atomic<std::int64_t> last_load{0};
    std::int64_t furthest = 0;
  };
  const PhysicalGraph graph =
      pipeline_graph({.stages = 1, .micro_batches = 3, .host_actors = true});
  const std::unique_ptr<DeviceSet> set =
      replaying_devices(cpu_mix_devices(options_of(CpuQueueKind::kInline)), {})(graph);
  SlowReader host;
  run_all(graph, set->devices(), host, 20);
  // While step n is read, n + 1 is launched and n + 2 is loaded.
  CHECK(host.furthest <= 2);
  CHECK(host.last_load == 19);
}

TEST_CASE("a window of one launch and one step of run-ahead change no number") {
  const PhysicalGraph graph =
      pipeline_graph({.stages = 3, .micro_batches = 5, .host_actors = true});
  const MixResult expected = mix_oracle(graph, 4);
  for (const std::int64_t window : {1, 2}) {
    const ProtocolRun run = run_protocol(
        graph, cpu_mix_devices(options_of(CpuQueueKind::kStress, 3)), 4, RuntimeOptions{window, 1});
    CHECK(run.result == expected);
  }
}

TEST_CASE("a stalled consumer stops its producer instead of filling memory") {
  // The reader of losses on the host is slow: the forward pass may run ahead by the registers of
  // the loss frame and no further.
  class SlowReader final : public HostActors {
   public:
    void act(const HostAct& act) override {
      mix_.act(act);
      if (act.inputs.empty()) {
        ++loads;
        return;
      }
      most_ahead = std::max<std::int64_t>(most_ahead, loads - reads);
      ++reads;
    }
    MixHostActors mix_;
    std::atomic<std::int64_t> loads{0}, reads{0};
    std::int64_t most_ahead = 0;
  };
  const PhysicalGraph graph =
      pipeline_graph({.stages = 1, .micro_batches = 8, .host_actors = true});
  const std::unique_ptr<DeviceSet> set = cpu_mix_devices(options_of(CpuQueueKind::kStress))(graph);
  SlowReader host;
  run_all(graph, set->devices(), host, 3);
  CHECK(host.loads == 24);
  CHECK(host.reads == 24);
  // Loader: registers in flight; losses: registers in flight; plus the one being read.
  std::int64_t registers = 1;
  for (const Instance& instance : graph.programs[ProgramId(0)].instances) {
    if (instance.name == "loader") registers += instance.frames[0].num_registers;
    if (instance.name == "forward") registers += instance.frames[1].num_registers;
  }
  CHECK(host.most_ahead <= registers);
}

TEST_CASE("an error of a host actor ends all ranks and is rethrown") {
  class Failing final : public HostActors {
   public:
    void act(const HostAct& act) override {
      if (act.step == 1 && act.inputs.empty()) {
        throw Error(ErrorCode::kBadInput, "no more data");
      }
    }
  };
  const PhysicalGraph graph =
      pipeline_graph({.stages = 3, .micro_batches = 4, .host_actors = true});
  for (const CpuQueueKind queues : {CpuQueueKind::kAsynchronous, CpuQueueKind::kInline}) {
    const std::unique_ptr<DeviceSet> set = cpu_mix_devices(options_of(queues))(graph);
    Failing host;
    try {
      run_all(graph, set->devices(), host, 5);
      FAIL("went on without data");
    } catch (const Error& error) {
      CHECK(std::string(error.what()).find("rank 0, step ") != std::string::npos);
      CHECK(std::string(error.what()).find("no more data") != std::string::npos);
    }
  }
}

TEST_CASE("two hundred starts and stops leave nothing behind and change nothing") {
  const PhysicalGraph graph =
      pipeline_graph({.stages = 2, .micro_batches = 2, .host_actors = true});
  const MixResult expected = mix_oracle(graph, 1);
  for (int start = 0; start < 200; ++start) {
    REQUIRE(
        run_protocol(graph, cpu_mix_devices(options_of(CpuQueueKind::kAsynchronous)), 1).result ==
        expected);
  }
}

}  // namespace sextant::protocol_test
