// What actors cost on the host, without device work: one act of the protocol, one launch of the
// runtime, one tape entry, and the passes of the compiler that use them. The baseline is a loop
// that walks the same order and touches one counter per run.
#include "actor/bytes/byte_order.h"
#include "actor/protocol/dry_run.h"
#include "actor/protocol/protocol.h"
#include "actor/protocol/proven_graph.h"
#include "actor/runtime.h"
#include "actor/tapes/tape.h"
#include "experiments/micro/layered_graph.h"

#include <benchmark/benchmark.h>

namespace sextant::act_bench {
namespace {

const PhysicalGraph& graph() {
  static const PhysicalGraph value = [] {
    PhysicalGraph made = layered_graph({.layers = 24, .micro_batches = 200, .actors = 12});
    made.programs[ProgramId(0)].guards = missing_guards(made, ProgramId(0));
    return made;
  }();
  return value;
}

void per_run(benchmark::State& state) {
  const auto runs = static_cast<std::int64_t>(graph().programs[ProgramId(0)].order.size());
  state.SetItemsProcessed(state.iterations() * runs);
  state.counters["runs"] = static_cast<double>(runs);
}

void plain_loop(benchmark::State& state) {
  const RankProgram& program = graph().programs[ProgramId(0)];
  std::vector<std::int64_t> acts(program.instances.size());
  for (auto _ : state) {
    for (const Run& run : program.order) benchmark::DoNotOptimize(++acts[run.instance.index()]);
  }
  per_run(state);
}
BENCHMARK(plain_loop)->Name("act/plain_loop");

void protocol_act(benchmark::State& state) {
  const ProgramTables tables(graph(), ProgramId(0));
  Protocol protocol(tables);
  std::int64_t step = 0;
  for (auto _ : state) {
    for (std::int32_t r = 0; r < static_cast<std::int32_t>(tables.runs.size()); ++r) {
      benchmark::DoNotOptimize(protocol.issue(r, step));
    }
    ++step;
  }
  per_run(state);
}
BENCHMARK(protocol_act)->Name("act/protocol_act");

// A device that accepts everything and does nothing.
class NullDevice final : public Device {
 public:
  const DeviceSpec& spec() const override { return spec_; }
  void prepare(const PhysicalGraph& graph, Rank rank) override {
    const RankProgram& program = graph.program_of(rank);
    for (const Run& run : program.order) {
      queues_.push_back(graph.block_of(program.instances[run.instance])
                            .actors[static_cast<std::size_t>(run.first_actor)]
                            .queue);
    }
  }
  void launch(std::span<const Launch> group, std::span<Fence> done) override {
    for (std::size_t i = 0; i < group.size(); ++i) {
      const QueueRole queue = queues_[group[i].run.index()];
      done[i] = {queue, next_[static_cast<std::size_t>(queue)]++};
    }
  }
  FenceState state(Fence) override { return FenceState::kDone; }
  void wait(Fence) override {}
  std::span<std::byte> host_view(InstanceId, std::int32_t, std::int32_t) override { return {}; }
  std::span<const Stamp> stamps() override { return {}; }

 private:
  DeviceSpec spec_;
  std::vector<QueueRole> queues_;
  std::array<std::int64_t, kNumQueueRoles> next_{};
};

void runtime_launch(benchmark::State& state) {
  NullDevice device;
  device.prepare(graph(), Rank(0));
  IdleHostActors host;
  RankRuntime runtime(graph(), Rank(0), device, host);
  for (auto _ : state) runtime.run(1);
  per_run(state);
}
BENCHMARK(runtime_launch)->Name("act/runtime_launch");

class UnitCost : public CostModel {
 public:
  Duration duration(const Work&) const override { return Duration(1000); }
  Duration launch_cost() const override { return Duration(10); }
};
class NoNetwork : public NetworkModel {
 public:
  void complete(const CollectiveCost&, std::span<const Time>, std::span<Time>) const override {}
  Duration duration(const CollectiveCost&) const override { return {}; }
};

void tape_entry(benchmark::State& state) {
  const ProvenGraph proven(graph());
  const Tape tape = record(proven, proven.classes());
  const UnitCost cost;
  const NoNetwork network;
  const std::vector<Duration> durations = entry_durations(tape, graph(), cost);
  TapeOptions options;
  options.jitter = static_cast<double>(state.range(0)) / 100;
  for (auto _ : state) {
    benchmark::DoNotOptimize(evaluate(tape, graph(), durations, cost, network, options));
  }
  per_run(state);
  state.SetItemsProcessed(state.items_processed() * options.steps);
}
BENCHMARK(tape_entry)->Name("act/tape_entry")->Arg(0)->Arg(10);

// Tables, counters and the first act of each of 10^5 actors, every one a launch of its own.
void start(benchmark::State& state) {
  const PhysicalGraph many = layered_graph({.layers = 33'334, .micro_batches = 1, .actors = 1});
  for (auto _ : state) {
    NullDevice device;
    device.prepare(many, Rank(0));
    IdleHostActors host;
    RankRuntime runtime(many, Rank(0), device, host);
    runtime.run(1);
  }
  state.counters["actors"] = static_cast<double>(many.programs[ProgramId(0)].order.size());
}
BENCHMARK(start)->Name("act/start")->Unit(benchmark::kMillisecond);

void build_tables(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(ProgramTables(graph(), ProgramId(0)));
  per_run(state);
}
BENCHMARK(build_tables)->Name("act/build_tables")->Unit(benchmark::kMillisecond);

void dry(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(dry_run(graph()));
  per_run(state);
}
BENCHMARK(dry)->Name("act/dry")->Unit(benchmark::kMillisecond);

void record_tape(benchmark::State& state) {
  for (auto _ : state) {
    const ProvenGraph proven(graph());
    benchmark::DoNotOptimize(record(proven, proven.classes()));
  }
  per_run(state);
}
BENCHMARK(record_tape)->Name("act/record_tape")->Unit(benchmark::kMillisecond);

void find_guards(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(missing_guards(graph(), ProgramId(0)));
  per_run(state);
}
BENCHMARK(find_guards)->Name("act/find_guards")->Unit(benchmark::kMillisecond);

void check_bytes(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(check_byte_order(graph(), ProgramId(0)));
  per_run(state);
}
BENCHMARK(check_bytes)->Name("act/check_bytes")->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace sextant::act_bench
