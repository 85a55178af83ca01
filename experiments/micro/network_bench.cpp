// Max-min sharing: random flows on a fat tree, per flow, and its first solution alone. The baseline
// works all rates out anew at every event. Exact first: 1,000 flows end when the baseline ends
// them.
#include "experiments/micro/fat_tree.h"
#include "simulator/links/event_queue.h"

#include <benchmark/benchmark.h>

#include <cmath>
#include <string>

namespace sextant::network_bench {
namespace {

constexpr int kArity = 16;  // 1,024 hosts

void flows_on_fat_tree(benchmark::State& state) {
  const FatTree tree(kArity);
  const std::vector<double> capacities = tree.capacities();
  const std::vector<FluidFlow> flows =
      random_flows(tree, static_cast<int>(state.range(0)), 1, state.range(1) != 0);
  for (auto _ : state) benchmark::DoNotOptimize(run_flows(capacities, flows));
  state.SetItemsProcessed(state.iterations() * state.range(0));
  state.SetLabel(state.range(1) != 0 ? "begin together" : "begin within 10 ms");
}
BENCHMARK(flows_on_fat_tree)
    ->Name("network/flows_on_fat_tree")
    ->ArgsProduct({{1000, 2000, 4000}, {0, 1}})
    ->Unit(benchmark::kMillisecond);

double worst_error(std::span<const Time> ends, std::span<const double> exact) {
  double worst = 0;
  for (std::size_t f = 0; f < ends.size(); ++f)
    worst = std::max(worst, std::abs(static_cast<double>(ends[f].value) - exact[f]) / exact[f]);
  return worst;
}

void naive_flows_on_fat_tree(benchmark::State& state) {
  const FatTree tree(kArity);
  const std::vector<double> capacities = tree.capacities();
  const std::vector<FluidFlow> flows =
      random_flows(tree, static_cast<int>(state.range(0)), 1, true);
  std::vector<double> exact;
  for (auto _ : state) exact = run_flows_naively(capacities, flows);
  const double worst = worst_error(run_flows(capacities, flows), exact);
  state.counters["worst_relative_error"] = worst;
  if (worst > 1e-3) state.SkipWithError(("an end is off by " + std::to_string(worst)).c_str());
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(naive_flows_on_fat_tree)
    ->Name("network/naive_flows_on_fat_tree")
    ->Arg(1000)
    ->Iterations(1)
    ->Unit(benchmark::kMillisecond);

void first_rates(benchmark::State& state) {
  const FatTree tree(kArity);
  const std::vector<double> capacities = tree.capacities();
  const std::vector<FluidFlow> flows =
      random_flows(tree, static_cast<int>(state.range(0)), 1, true);
  for (auto _ : state) {
    MaxMin solver(capacities);
    for (const FluidFlow& flow : flows) solver.add(flow.loads);
    solver.solve();
    benchmark::DoNotOptimize(solver.changed());
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(first_rates)->Name("network/first_rates")->Arg(4000)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace sextant::network_bench
