// What simulation costs on one core: a large plan folded, part by part, and the workloads of other
// simulators unfolded and folded, with the peak of memory. `taskset -c 0` keeps it on one core; the
// processor time of all threads is counted. Definitions: METRICS.md.
#include "simulator/modes/simulate.h"

#include "actor/protocol/dry_run.h"
#include "actor/protocol/proven_graph.h"
#include "actor/protocol/rank_classes.h"
#include "actor/tapes/flat_tape.h"
#include "actor/tapes/tape.h"
#include "compiler/expand/expand.h"
#include "compiler/training/training_graph.h"
#include "experiments/micro/collective_graph.h"
#include "experiments/micro/ring_graph.h"
#include "models/model.h"
#include "simulator/cluster_files/cluster_file.h"
#include "simulator/costs/models.h"
#include "simulator/modes/group_colours.h"
#include "simulator/modes/prepared_graph.h"

#include <benchmark/benchmark.h>
#include <fmt/core.h>

#include <fstream>
#include <map>
#include <memory>
#include <string>

namespace sextant::simulate_bench {
namespace {

// Of this process, since the last reset; 0 where the kernel does not say.
void reset_peak() { std::ofstream("/proc/self/clear_refs") << "5"; }
double peak_mib() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    double kib = 0;
    if (word == "VmHWM:" && status >> kib) return kib / 1024;
  }
  return 0;
}

// ---------------------------------------------------------------- a large plan, folded

struct Plan {
  std::unique_ptr<CostModel> cost;
  std::unique_ptr<NetworkModel> network;
  std::optional<ProvenGraph> proven;

  const PhysicalGraph& graph() const { return proven->graph(); }
};

Plan plan_of(const std::string& model_name, const std::string& recipe, std::int64_t ranks,
             std::int64_t micro_batches) {
  Plan plan;
  const Cluster cluster = load_cluster(fmt::format("dgx-h100:nodes={}", ranks / 8));
  plan.cost = make_roofline(cluster, DType::kBF16);
  plan.network = make_alpha_beta(cluster);
  const Strategy strategy = parse_strategy(recipe);
  const ModelConfig model = load_model(model_name);
  const LogicalGraph training =
      make_training_graph(build_graph(model, strategy.dp, model.sequence, DType::kBF16), strategy);
  plan.proven =
      compile_and_report(training, strategy, strategy.dp * micro_batches, *plan.cost, *plan.network)
          .proven();
  return plan;
}

const Plan& gpt3(std::int64_t ranks, bool interleaved) {
  static std::map<std::pair<std::int64_t, bool>, Plan> plans;
  Plan& plan = plans[{ranks, interleaved}];
  if (!plan.proven)
    plan = plan_of("gpt3-175b",
                   fmt::format("dp={} tp=8 pp=8 micro_batch=1{}", ranks / 64,
                               interleaved ? " schedule=interleaved virtual=6" : ""),
                   ranks, 96);
  return plan;
}

// All of simulate() from a bare graph: as the search does it, and others who were given one.
void gpt3_simulate(benchmark::State& state) {
  const Plan& plan = gpt3(state.range(0), state.range(1) != 0);
  reset_peak();
  std::int64_t events = 0;
  for (auto _ : state) events += simulate(plan.graph(), *plan.cost, *plan.network).events;
  state.SetItemsProcessed(events);
  state.counters["peak_MiB"] = peak_mib();
}
BENCHMARK(gpt3_simulate)
    ->Name("simulate/gpt3_simulate")
    ->ArgsProduct({{1024, 16384}, {0, 1}})
    ->ArgNames({"ranks", "interleaved"})
    ->MeasureProcessCPUTime()
    ->Unit(benchmark::kMillisecond);

// What `sextant simulate` does once the plan is compiled: the compiler has proved that it can run,
// and tables and dry run of that proof are there.
void gpt3_compiled(benchmark::State& state) {
  const Plan& plan = gpt3(state.range(0), state.range(1) != 0);
  reset_peak();
  std::int64_t events = 0;
  for (auto _ : state) events += simulate(*plan.proven, *plan.cost, *plan.network).events;
  state.SetItemsProcessed(events);
  state.counters["peak_MiB"] = peak_mib();
}
BENCHMARK(gpt3_compiled)
    ->Name("simulate/gpt3_compiled")
    ->ArgsProduct({{1024, 16384}, {0, 1}})
    ->ArgNames({"ranks", "interleaved"})
    ->MeasureProcessCPUTime()
    ->Unit(benchmark::kMillisecond);

// The same for a graph that was prepared before, as for another seed or another link: classes
// again, durations, evaluation, parts.
void gpt3_again(benchmark::State& state) {
  const Plan& plan = gpt3(state.range(0), state.range(1) != 0);
  const PreparedGraph prepared(plan.graph(), *plan.cost, *plan.network);
  std::int64_t events = 0;
  for (auto _ : state) events += prepared.simulate(*plan.cost, *plan.network).events;
  state.SetItemsProcessed(events);
}
BENCHMARK(gpt3_again)
    ->Name("simulate/gpt3_again")
    ->ArgsProduct({{1024, 16384}, {0, 1}})
    ->ArgNames({"ranks", "interleaved"})
    ->MeasureProcessCPUTime()
    ->Unit(benchmark::kMillisecond);

enum Part { kMembers, kColours, kClasses, kDryRun, kRecord, kDurations, kFlatten, kEvaluate };

void gpt3_part(benchmark::State& state) {
  const Plan& plan = gpt3(state.range(0), state.range(1) != 0);
  const GroupMembers members(plan.graph());
  const auto colours = group_colours(plan.graph(), members, *plan.network);
  const RankClasses classes = rank_classes(plan.graph(), members, {}, colours);
  const Tape tape = record(*plan.proven, classes);
  const FlatTape flat(tape);
  const auto durations = entry_durations(tape, plan.graph(), *plan.cost);
  const TapeOptions options;
  const auto part = [&] {
    switch (static_cast<Part>(state.range(2))) {
      case kMembers:
        benchmark::DoNotOptimize(GroupMembers(plan.graph()));
        break;
      case kColours:
        benchmark::DoNotOptimize(group_colours(plan.graph(), members, *plan.network));
        break;
      case kClasses:
        benchmark::DoNotOptimize(rank_classes(plan.graph(), members, {}, colours));
        break;
      case kDryRun: {
        const GraphTables fresh(plan.graph());
        benchmark::DoNotOptimize(dry_run(plan.graph(), members, classes, fresh));
        break;
      }
      case kRecord:
        benchmark::DoNotOptimize(record(*plan.proven, classes));
        break;
      case kDurations:
        benchmark::DoNotOptimize(entry_durations(tape, plan.graph(), *plan.cost));
        break;
      case kFlatten:
        benchmark::DoNotOptimize(FlatTape(tape));
        break;
      case kEvaluate:
        benchmark::DoNotOptimize(evaluate(flat, durations, *plan.cost, *plan.network, options));
        break;
    }
  };
  for (auto _ : state) part();
  const auto entries = static_cast<std::int64_t>(tape.entries.size());
  state.SetItemsProcessed(state.iterations() * entries *
                          (state.range(2) == kEvaluate ? options.steps : 1));
  state.counters["entries"] = static_cast<double>(entries);
}
BENCHMARK(gpt3_part)
    ->Name("simulate/gpt3_part")
    ->ArgsProduct({{1024, 16384},
                   {0, 1},
                   {kMembers, kColours, kClasses, kDryRun, kRecord, kDurations, kFlatten,
                    kEvaluate}})
    ->ArgNames({"ranks", "interleaved", "part"})
    ->MeasureProcessCPUTime()
    ->Unit(benchmark::kMillisecond);

// ---------------------------------------------------------------- peers' workloads

// One step, from the graph to the step time. `peer_s` stands beside it: processor seconds of
// ASTRA-sim 2 (congestion-unaware network, ring and hierarchical all-reduce of 1 GiB), measured
// once on another machine of two cores, to say the order of magnitude; 0: not measured.
void simulate_once(benchmark::State& state, const PhysicalGraph& graph, const CostModel& cost,
                   const NetworkModel& network, bool folded, double jitter, double messages,
                   double peer_s) {
  SimulateOptions options;
  options.steps = 1;
  options.folded = folded;
  options.jitter = jitter;
  reset_peak();
  std::int64_t events = 0;
  for (auto _ : state) events += simulate(graph, cost, network, options).events;
  state.SetItemsProcessed(events);
  state.counters["peak_MiB"] = peak_mib();
  state.counters["launches"] =
      static_cast<double>(events) / static_cast<double>(state.iterations());
  state.counters["messages"] = messages;
  state.counters["peer_s"] = peer_s;
}

const std::vector<std::string> kWorkload = {"ranks", "folded", "jitter_percent"};

void messages_of(benchmark::State& state, RingSpec spec, double peer_s) {
  spec.flops = 1e12;
  const PhysicalGraph graph = RingGraph::make(spec);
  const Cluster cluster = load_cluster(fmt::format("dgx-h100:nodes={}", spec.ranks / 8));
  const auto cost = make_roofline(cluster, DType::kBF16);
  const auto network = make_alpha_beta(cluster);
  simulate_once(state, graph, *cost, *network, state.range(1) != 0,
                static_cast<double>(state.range(2)) / 100, static_cast<double>(num_messages(spec)),
                peer_s);
}

// Every message a transfer of its own: what ASTRA-sim counts.
void ring_messages(benchmark::State& state) {
  const std::map<std::int64_t, double> peer{{64, 0.08}, {256, 0.94}, {1024, 24}};
  const auto known = peer.find(state.range(0));
  messages_of(state, ring_all_reduce(state.range(0), std::int64_t{1} << 30),
              known == peer.end() ? 0 : known->second);
}
BENCHMARK(ring_messages)
    ->Name("simulate/ring_messages")
    ->ArgsProduct({{64, 256, 1024}, {0}, {0, 10}})
    ->Args({1024, 1, 0})
    ->Args({4096, 1, 0})
    ->ArgNames(kWorkload)
    ->MeasureProcessCPUTime()
    ->Unit(benchmark::kMillisecond);

void hierarchical_messages(benchmark::State& state) {
  messages_of(state, hierarchical_all_reduce(state.range(0), 8, std::int64_t{1} << 30),
              state.range(0) == 1024 ? 6.8 : 113);
}
BENCHMARK(hierarchical_messages)
    ->Name("simulate/hierarchical_messages")
    ->ArgsProduct({{1024, 4096}, {0}, {0, 10}})
    ->Args({1024, 1, 0})
    ->Args({4096, 1, 0})
    ->ArgNames(kWorkload)
    ->MeasureProcessCPUTime()
    ->Unit(benchmark::kMillisecond);

// The same as collectives, as a plan has them: one communication each, whose members are over one
// by one by the recurrence of its messages, so that skew and jitter are kept; folded by the model
// whose members are over together, which equal hops make exact.
void collectives_of(benchmark::State& state, CollectiveSpec spec, double peer_s) {
  spec.flops = 1e12;
  spec.bytes = std::int64_t{1} << 30;
  const PhysicalGraph graph = CollectiveGraph::make(spec);
  const Cluster cluster = load_cluster(fmt::format("dgx-h100:nodes={}", spec.ranks / 8));
  const auto cost = make_roofline(cluster, DType::kBF16);
  const bool folded = state.range(1) != 0;
  const auto network = folded ? make_alpha_beta(cluster) : make_ring_recurrence(cluster);
  simulate_once(state, graph, *cost, *network, folded, static_cast<double>(state.range(2)) / 100,
                static_cast<double>(num_messages(spec)), peer_s);
}

void ring_collective(benchmark::State& state) {
  const std::map<std::int64_t, double> peer{{64, 0.08}, {256, 0.94}, {1024, 24}};
  const auto known = peer.find(state.range(0));
  CollectiveSpec spec;
  spec.ranks = state.range(0);
  collectives_of(state, spec, known == peer.end() ? 0 : known->second);
}
BENCHMARK(ring_collective)
    ->Name("simulate/ring_collective")
    ->ArgsProduct({{64, 256, 1024, 4096}, {0}, {0, 10}})
    ->ArgsProduct({{64, 256, 1024, 4096}, {1}, {0}})
    ->ArgNames(kWorkload)
    ->MeasureProcessCPUTime()
    ->Unit(benchmark::kMillisecond);

void hierarchical_collective(benchmark::State& state) {
  const std::map<std::int64_t, double> peer{{1024, 6.8}, {4096, 113}};
  const auto known = peer.find(state.range(0));
  CollectiveSpec spec;
  spec.ranks = state.range(0);
  spec.hierarchical = true;
  collectives_of(state, spec, known == peer.end() ? 0 : known->second);
}
BENCHMARK(hierarchical_collective)
    ->Name("simulate/hierarchical_collective")
    ->ArgsProduct({{64, 256, 1024, 4096}, {0}, {0, 10}})
    ->ArgsProduct({{64, 256, 1024, 4096}, {1}, {0}})
    ->ArgNames(kWorkload)
    ->MeasureProcessCPUTime()
    ->Unit(benchmark::kMillisecond);

// A ring as one collective whose members are over one by one: the recurrence of its messages.
void ring_recurrence(benchmark::State& state) {
  const std::int64_t n = state.range(0);
  const Cluster cluster = load_cluster(fmt::format("dgx-h100:nodes={}", n / 8));
  const auto network = make_ring_recurrence(cluster);
  const Layout layout{{Shape{std::int64_t{1} << 30}, DType::kBool}, {}, PlacementId(0)};
  const Communication communication{Primitive::kAllReduce, Side::kBoth, 0, ReduceOp::kSum,
                                    DType::kBool,          {},          {}};
  std::vector<Rank> members;
  for (std::int64_t r = 0; r < n; ++r) members.emplace_back(static_cast<int>(r));
  CollectiveCost cost{&communication, members, Bytes(std::int64_t{1} << 30), Bytes(0)};
  std::vector<Time> arrivals(members.size()), done(members.size());
  for (std::size_t i = 0; i < arrivals.size(); ++i)
    arrivals[i] = Time(static_cast<std::int64_t>(i * 2654435761U % 100000000U));
  reset_peak();
  for (auto _ : state) {
    network->complete(cost, arrivals, done);
    benchmark::DoNotOptimize(done.data());
  }
  state.SetItemsProcessed(state.iterations() * 2 * (n - 1) * n);
  state.counters["peak_MiB"] = peak_mib();
}
BENCHMARK(ring_recurrence)
    ->Name("simulate/ring_recurrence")
    ->Arg(64)
    ->Arg(256)
    ->Arg(1024)
    ->Arg(4096)
    ->Unit(benchmark::kMillisecond);

// Four layers, tp=8, the rest data parallel; collectives are one communication each.
void gpt_four_layers(benchmark::State& state) {
  static std::map<std::int64_t, Plan> plans;
  const std::int64_t ranks = state.range(0);
  Plan& plan = plans[ranks];
  if (!plan.proven)
    plan = plan_of("gpt:layers=4,hidden=4096,heads=32", fmt::format("dp={} tp=8", ranks / 8), ranks,
                   1);
  const std::map<std::int64_t, double> smooth{{64, 0.23}, {256, 1.4}, {1024, 32}};
  const bool jitters = state.range(2) != 0;
  const double peer = jitters ? (ranks == 256 ? 2.75 : 0) : smooth.at(ranks);
  simulate_once(state, plan.graph(), *plan.cost, *plan.network, state.range(1) != 0,
                static_cast<double>(state.range(2)) / 100, 0, peer);
}
BENCHMARK(gpt_four_layers)
    ->Name("simulate/gpt_four_layers")
    ->ArgsProduct({{64, 256, 1024}, {0}, {0, 10}})
    ->ArgsProduct({{64, 256, 1024}, {1}, {0}})
    ->ArgNames(kWorkload)
    ->MeasureProcessCPUTime()
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace sextant::simulate_bench
