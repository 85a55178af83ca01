// What planning one boxing costs, what finding a known plan costs, and the obvious planner beside
// it. Every benchmark walks a fixed list of pairs; times are per pair. Before it is timed, the
// obvious planner has to find the same costs. Definitions: METRICS.md.
#include "sbp/boxing.h"

#include "core/base/check.h"
#include "core/costs/words_at.h"
#include "experiments/micro/naive_boxing.h"
#include "sbp/boxing_plans.h"
#include "simulator/cluster_files/cluster_file.h"
#include "simulator/costs/models.h"

#include <benchmark/benchmark.h>

#include <algorithm>
#include <ctime>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

namespace sextant::boxing_bench {
namespace {

const TensorType kType{Shape{4096, 1024}, DType::kBF16};

std::unique_ptr<CostModel> cost_of(BoxingObjective objective) {
  if (objective == BoxingObjective::kBytes) return nullptr;
  return make_cost_model(load_cluster("dgx-h100:nodes=8"), kType.dtype);
}

std::unique_ptr<NetworkModel> network_of(BoxingObjective objective) {
  if (objective == BoxingObjective::kBytes) return nullptr;
  return make_alpha_beta(load_cluster("dgx-h100:nodes=8"));
}

// Pairs of words on two placements, with what a plan between them depends on.
struct Pairs {
  Placement from, to;
  std::vector<std::pair<NdSbp, NdSbp>> words;
  std::unique_ptr<NetworkModel> network;
  std::unique_ptr<CostModel> cost;

  BoxingRequest request(std::size_t i) const {
    return {.type = kType,
            .from_placement = &from,
            .to_placement = &to,
            .from = words[i].first,
            .to = words[i].second,
            .objective = network != nullptr ? BoxingObjective::kTime : BoxingObjective::kBytes,
            .network = network.get(),
            .cost = cost.get()};
  }
};

// All words of {B, S(0), S(1), P(sum)} on a mesh.
std::vector<NdSbp> all_words(std::size_t axes) {
  const std::vector<Sbp> letters = {Sbp::broadcast(), Sbp::split(0), Sbp::split(1), Sbp::partial()};
  std::vector<NdSbp> words = {{}};
  for (std::size_t axis = 0; axis < axes; ++axis) {
    std::vector<NdSbp> longer;
    for (const NdSbp& prefix : words)
      for (const Sbp& letter : letters) {
        longer.push_back(prefix);
        longer.back().push_back(letter);
      }
    words = std::move(longer);
  }
  return words;
}

Placement placement_of(const char* text) {
  std::size_t at = 0;
  const std::string whole(text);
  Placement placement{.axes = read_mesh_axes(whole, at), .ranks = {}};
  if (at == whole.size()) return consecutive_placement(std::move(placement.axes));
  placement.ranks = read_device_list(whole, at);
  validate(placement);
  return placement;
}

// All pairs, or so many of them, always the same.
Pairs pairs_of(const char* from, const char* to, BoxingObjective objective, std::size_t most) {
  Pairs pairs{placement_of(from), placement_of(to), {}, network_of(objective), cost_of(objective)};
  for (const NdSbp& a : all_words(pairs.from.axes.size()))
    for (const NdSbp& b : all_words(pairs.to.axes.size())) pairs.words.emplace_back(a, b);
  std::mt19937 random(1);
  std::shuffle(pairs.words.begin(), pairs.words.end(), random);
  if (pairs.words.size() > most) pairs.words.resize(most);
  return pairs;
}

constexpr std::size_t kAll = 1 << 20;

// Processor time of the pair that takes longest, each the best of three, so that an interrupt is
// not taken for a hard pair.
double slowest_us(const Pairs& pairs) {
  std::clock_t slowest = 0;
  for (std::size_t i = 0; i < pairs.words.size(); ++i) {
    std::clock_t best = std::numeric_limits<std::clock_t>::max();
    for (int again = 0; again < 3; ++again) {
      const std::clock_t begin = std::clock();
      benchmark::DoNotOptimize(plan_boxing(pairs.request(i)));
      best = std::min(best, std::clock() - begin);
    }
    slowest = std::max(slowest, best);
  }
  return 1e6 * static_cast<double>(slowest) / CLOCKS_PER_SEC;
}

void plan(benchmark::State& state, const char* from, const char* to, BoxingObjective objective,
          std::size_t most) {
  const Pairs pairs = pairs_of(from, to, objective, most);
  std::size_t i = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(plan_boxing(pairs.request(i)));
    if (++i == pairs.words.size()) i = 0;
  }
  state.counters["pairs"] = static_cast<double>(pairs.words.size());
  state.counters["slowest_us"] = slowest_us(pairs);
}

bool is_equal(const BoxingRequest& request) {
  const NaiveCost naive = NaiveBoxing(request).cost();
  const BoxingPlan plan = plan_boxing(request);
  const bool by_time = request.network != nullptr;
  return naive.bytes == plan.total_bytes.value &&
         naive.objective == (by_time ? plan.time.value : plan.total_bytes.value);
}

void naive(benchmark::State& state, const char* from, const char* to, BoxingObjective objective,
           std::size_t most) {
  const Pairs pairs = pairs_of(from, to, objective, most);
  for (std::size_t i = 0; i < pairs.words.size(); ++i) {
    if (is_equal(pairs.request(i))) continue;
    const std::string what = to_string(pairs.words[i].first, pairs.from) + " -> " +
                             to_string(pairs.words[i].second, pairs.to) + ": other costs";
    return state.SkipWithError(what.c_str());
  }
  std::size_t i = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(NaiveBoxing(pairs.request(i)).cost());
    if (++i == pairs.words.size()) i = 0;
  }
  state.counters["pairs"] = static_cast<double>(pairs.words.size());
}

// One plan asked for by name, as the compiler does.
void known_plan(benchmark::State& state, const char* mesh, BoxingObjective objective) {
  const Pairs pairs = pairs_of(mesh, mesh, objective, kAll);
  BoxingPlans plans(objective, pairs.network.get(), pairs.cost.get());
  const BoxedTypeId type = plans.type(kType);
  const BoxedMeshId here = plans.placement(pairs.from);
  const std::vector<std::int64_t> extents = pairs.from.hierarchy();
  std::vector<std::pair<MeshState, MeshState>> states;
  for (const auto& [from, to] : pairs.words) {
    states.emplace_back(MeshState(from, extents, kType.shape), MeshState(to, extents, kType.shape));
    plans.plan(type, here, states.back().first, here, states.back().second);
  }
  std::size_t i = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(&plans.plan(type, here, states[i].first, here, states[i].second));
    if (++i == states.size()) i = 0;
  }
  state.counters["plans"] = static_cast<double>(plans.size());
}

constexpr auto kBytes = BoxingObjective::kBytes;
constexpr auto kTime = BoxingObjective::kTime;

BENCHMARK_CAPTURE(known_plan, 2x4_bytes, "[dp=2, tp=4]", kBytes)
    ->Name("boxing/known_plan/2x4_bytes");
BENCHMARK_CAPTURE(known_plan, 2x4_time, "[dp=2, tp=4]", kTime)->Name("boxing/known_plan/2x4_time");
BENCHMARK_CAPTURE(known_plan, 4x4x4_bytes, "[a=4, b=4, c=4]", kBytes)
    ->Name("boxing/known_plan/4x4x4_bytes");

// Meshes of the benchmarks, each planned by bytes and by time.
struct Case {
  const char *name, *from, *to;
  std::size_t pairs, naive_pairs;  // at most; the obvious planner takes milliseconds
};
const Case kCases[] = {
    {"8", "[x=8]", "[x=8]", kAll, kAll},
    {"2x4", "[dp=2, tp=4]", "[dp=2, tp=4]", kAll, kAll},
    {"2x2x2", "[a=2, b=2, c=2]", "[a=2, b=2, c=2]", 256, 16},
    {"4x4x4", "[a=4, b=4, c=4]", "[a=4, b=4, c=4]", 256, 0},
    {"4_to_2x2", "[x=4]", "[a=2, b=2]", kAll, kAll},
    {"2x2_permuted", "[a=2, b=2]", "[a=2, b=2]{0, 2, 1, 3}", kAll, 32},
    {"2x2_overlapping", "[a=2, b=2]", "[a=2, b=2]{2-5}", kAll, 32},
    {"2x4_disjoint", "[dp=2, tp=4]", "[dp=2, tp=4]{8-15}", kAll, 16},
};

bool register_all() {
  for (const Case& c : kCases)
    for (const BoxingObjective objective : {kBytes, kTime}) {
      const std::string name =
          std::string("/") + c.name + (objective == kBytes ? "_bytes" : "_time");
      benchmark::RegisterBenchmark(("boxing/plan" + name).c_str(), plan, c.from, c.to, objective,
                                   c.pairs)
          ->Unit(benchmark::kMicrosecond);
      if (c.naive_pairs > 0)
        benchmark::RegisterBenchmark(("boxing/naive" + name).c_str(), naive, c.from, c.to,
                                     objective, c.naive_pairs)
            ->Unit(benchmark::kMicrosecond);
    }
  return true;
}
[[maybe_unused]] const bool kRegistered = register_all();

}  // namespace
}  // namespace sextant::boxing_bench
