// Costs of collectives: rings member by member, smooth and with 10 % jitter of the arrivals, in
// messages per second, and one duration of the network model.
//   meson test -C build --benchmark collective

#include "simulator/cluster_files/cluster_file.h"
#include "simulator/costs/models.h"
#include "simulator/costs/ring_recurrence.h"

#include <benchmark/benchmark.h>

#include <memory>
#include <random>
#include <vector>

namespace sextant::collective_bench {
namespace {

// A step of compute takes 1 ms, 10 % more or less where it jitters.
std::vector<Time> arrivals_of(std::size_t members, bool jitter) {
  std::mt19937_64 random(7);
  std::vector<Time> arrivals;
  for (std::size_t i = 0; i < members; ++i)
    arrivals.emplace_back(
        std::int64_t{1'000'000'000} +
        (jitter ? static_cast<std::int64_t>(random() % 200'000'001) - 100'000'000 : 0));
  return arrivals;
}

void count_messages(benchmark::State& state, std::size_t members, std::int64_t steps) {
  const double messages = static_cast<double>(members) * static_cast<double>(steps);
  state.counters["messages"] =
      benchmark::Counter(messages, benchmark::Counter::kIsIterationInvariantRate);
  state.counters["per_message"] = benchmark::Counter(
      messages, benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

// `complete(arrivals, done)` takes `steps` steps of a ring.
template <typename Complete>
void measure_ring(benchmark::State& state, std::int64_t steps, const Complete& complete) {
  const auto members = static_cast<std::size_t>(state.range(0));
  const std::vector<Time> arrivals = arrivals_of(members, state.range(1) != 0);
  std::vector<Time> done(members);
  for (auto _ : state) {
    complete(arrivals, done);
    benchmark::DoNotOptimize(done.data());
  }
  count_messages(state, members, steps);
}

constexpr Duration kHop(3'000'000);

std::int64_t steps_of_all_reduce(const benchmark::State& state) { return 2 * (state.range(0) - 1); }

void equal_hops(benchmark::State& state) {
  const std::int64_t steps = steps_of_all_reduce(state);
  measure_ring(state, steps, [&](const std::vector<Time>& arrivals, std::vector<Time>& done) {
    ring_completions(arrivals, kHop, steps, done);
  });
}

// Half of the way round: a true sliding maximum.
void window(benchmark::State& state) {
  const std::int64_t steps = state.range(0) / 2;
  measure_ring(state, steps, [&](const std::vector<Time>& arrivals, std::vector<Time>& done) {
    ring_completions(arrivals, kHop, steps, done);
  });
}

// Every eighth hop leaves a node: the dense recurrence, nothing about it in closed form.
void unequal_hops(benchmark::State& state) {
  std::vector<Duration> hops(static_cast<std::size_t>(state.range(0)), kHop);
  for (std::size_t i = 0; i < hops.size(); i += 8) hops[i] = Duration(9'000'000);
  const std::int64_t steps = steps_of_all_reduce(state);
  measure_ring(state, steps, [&](const std::vector<Time>& arrivals, std::vector<Time>& done) {
    ring_completions(arrivals, hops, steps, done);
  });
}

// The oracle, for comparison.
void by_steps(benchmark::State& state) {
  const std::int64_t steps = steps_of_all_reduce(state);
  measure_ring(state, steps, [&](const std::vector<Time>& arrivals, std::vector<Time>& done) {
    ring_completions_by_steps(arrivals, kHop, steps, done);
  });
}

void one_duration(benchmark::State& state) {
  const auto network = make_network_model(load_cluster("dgx-h100:nodes=128"));
  Communication communication;
  communication.primitive = Primitive::kAllReduce;
  std::vector<Rank> members;
  for (std::int64_t i = 0; i < state.range(0); ++i) members.emplace_back(static_cast<int>(i));
  CollectiveCost cost;
  cost.communication = &communication;
  cost.members = members;
  cost.global_bytes = Bytes(std::int64_t{100} << 20);
  for (auto _ : state) benchmark::DoNotOptimize(network->duration(cost));
}

void sizes(benchmark::internal::Benchmark* bench) {
  for (const std::int64_t jitter : {0, 1})
    for (std::int64_t members = 64; members <= 16384; members *= 4) bench->Args({members, jitter});
  bench->ArgNames({"members", "jitter"})->Unit(benchmark::kMicrosecond);
}

BENCHMARK(equal_hops)->Name("collective/equal_hops")->Apply(sizes);
BENCHMARK(window)->Name("collective/window")->Apply(sizes);
BENCHMARK(unequal_hops)->Name("collective/unequal_hops")->Apply(sizes);
BENCHMARK(by_steps)
    ->Name("collective/by_steps")
    ->Args({64, 1})
    ->Args({1024, 1})
    ->Unit(benchmark::kMicrosecond);
BENCHMARK(one_duration)->Name("collective/one_duration")->Arg(2)->Arg(8)->Arg(64)->Arg(1024);

}  // namespace
}  // namespace sextant::collective_bench
