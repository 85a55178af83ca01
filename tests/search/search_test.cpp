// The search against brute force, and its bounds against the simulator, on models small enough to
// compile every strategy.

#include "search/search.h"

#include "compiler/expand.h"
#include "compiler/stage.h"
#include "compiler/training_graph.h"
#include "core/error.h"
#include "models/model.h"
#include "search/bounds.h"
#include "search/space.h"
#include "search/why_not.h"
#include "simulator/models.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <set>

namespace sextant::search_test {
namespace {

ModelConfig small_gpt(std::int64_t layers, std::int64_t heads) {
  ModelConfig config = load_model("gpt2-124m");
  config.name = "small";
  config.layers = layers;
  config.hidden = 64;
  config.heads = config.kv_heads = heads;
  config.head_size = 64 / heads;
  config.ffn = 256;
  config.vocab = 384;
  config.sequence = 32;
  return config;
}

struct Instance {
  std::string name;
  ModelConfig model;
  Cluster cluster;
  std::int64_t global_batch;
  DType dtype;
};

// A tight GPU, so that memory matters: a fraction of what the small model takes on one device.
Cluster tight(std::string_view cluster, std::int64_t memory) {
  Cluster result = load_cluster(cluster);
  result.device.library_memory.context = {1 << 20, Provenance::kAssumed, "a test"};
  result.device.library_memory.communicator = {1 << 16, Provenance::kAssumed, "a test"};
  result.device.library_memory.workspace = {};
  result.device.memory = Bytes(memory + (1 << 20));
  return result;
}

std::vector<Instance> instances() {
  return {
      {"two stages of cpu", small_gpt(2, 2), load_cluster("cpu:ranks=2,memory=2GiB"), 4,
       DType::kF32},
      {"four cpu ranks", small_gpt(3, 4), load_cluster("cpu:ranks=4,memory=2GiB"), 4, DType::kF32},
      {"one tight node", small_gpt(4, 4), tight("dgx-h100", 6 << 20), 8, DType::kBF16}};
}

SearchProblem problem_of(const Instance& instance) {
  SearchProblem problem;
  const ModelConfig model = instance.model;
  const DType dtype = instance.dtype;
  problem.training_graph = [model, dtype](const Strategy& strategy) {
    const std::int64_t samples = strategy.dp * strategy.micro_batch;
    return make_training_graph(build_graph(model, samples, model.sequence, dtype), strategy);
  };
  problem.global_batch = instance.global_batch;
  problem.cluster = &instance.cluster;
  problem.compute_dtype = instance.dtype;
  problem.model_flops_per_step = model_flops_per_token(model, model.sequence) *
                                 static_cast<double>(instance.global_batch * model.sequence);
  return problem;
}

TEST_CASE("the space is every product of divisors, each choice once") {
  // 4 devices, batch 4: (dp, tp, pp) of product 4 are 6. Micro-batches: dp=4 1, dp=2 2, dp=1 3.
  // dp=4: 1 x 1 schedule x 2 zero = 2. dp=2 tp=2: 2 x 1 x 2 = 4. dp=2 pp=2: 2 x 3 x 2 = 12.
  // dp=1 tp=4: 3. dp=1 tp=2 pp=2: 3 x 3 = 9. dp=1 pp=4: 9. Together 39.
  const auto space = enumerate_strategies(4, 4);
  CHECK(space.size() == 39);
  std::set<std::string> texts;
  for (const Strategy& strategy : space) {
    CHECK(strategy.ranks() == 4);
    CHECK(4 % (strategy.dp * strategy.micro_batch) == 0);
    texts.insert(to_string(strategy));
  }
  CHECK(texts.size() == space.size());
  // Three devices and a batch of 4: dp=3 does not divide the batch.
  for (const Strategy& strategy : enumerate_strategies(3, 4)) CHECK(strategy.dp == 1);
}

TEST_CASE("a fixed setting keeps exactly the strategies that have it") {
  const StrategyFilter filter({"tp=2", "schedule=1f1b"});
  std::int64_t kept = 0;
  for (const Strategy& strategy : enumerate_strategies(8, 8)) {
    const bool wanted = strategy.tp == 2 && strategy.schedule == Schedule::kOneFOneB;
    CHECK(filter.accepts(strategy) == wanted);
    kept += wanted ? 1 : 0;
  }
  CHECK(kept > 0);
  CHECK_THROWS_AS(StrategyFilter({"tq=2"}), Error);
  CHECK_THROWS_AS(StrategyFilter({"tp"}), Error);
}

// The space has no virtual stages yet; bounds must hold for them all the same.
std::vector<Strategy> with_virtual_stages(std::vector<Strategy> space) {
  const std::size_t size = space.size();
  for (std::size_t i = 0; i < size; ++i) {
    if (space[i].pp == 1 || space[i].schedule != Schedule::kOneFOneB) continue;
    for (const Schedule schedule : {Schedule::kInterleaved, Schedule::kZeroBubbleV}) {
      space.push_back(space[i]);
      space.back().schedule = schedule;
      space.back().virtual_stages = 2;
    }
  }
  return space;
}

// Compiles everything; the bounds of whatever compiles must hold.
TEST_CASE("no bound exceeds what the simulator says, over all strategies of several instances") {
  for (const Instance& instance : instances()) {
    const SearchProblem problem = problem_of(instance);
    const SearchModels models = make_search_models(problem);
    std::map<std::string, LogicalGraph> graphs;
    std::int64_t compiled = 0, with_chunks = 0;
    for (const Strategy& strategy : with_virtual_stages(
             enumerate_strategies(instance.cluster.num_devices(), instance.global_batch))) {
      CAPTURE(instance.name);
      const std::string text = to_string(strategy);
      CAPTURE(text);
      const std::string key = training_graph_key(strategy);
      if (!graphs.contains(key)) graphs.emplace(key, problem.training_graph(strategy));
      const LogicalGraph& training = graphs.at(key);
      const GraphProfile profile(training);
      try {
        const auto places = place_layers(profile.num_layers(), strategy);
        const std::int64_t micro_batches = num_micro_batches(strategy, instance.global_batch);
        const Candidate candidate =
            evaluate_strategy(training, strategy, instance.global_batch, models);
        CHECK(profile.memory_bound(strategy, places, micro_batches) <= candidate.peak_memory);
        CHECK(profile.time_bound(strategy, places, micro_batches, *models.cost) <=
              candidate.step_time);
        ++compiled;
        with_chunks += strategy.virtual_stages > 1 ? 1 : 0;
      } catch (const Error& error) {
        const std::string reason = error.what();
        CAPTURE(reason);
        CHECK(error.code() == ErrorCode::kInfeasible);
      }
    }
    CHECK(compiled > 3);
    CHECK((with_chunks > 0) == (instance.model.layers >= 4));
  }
}

TEST_CASE("the search finds the plan that brute force finds") {
  for (const Instance& instance : instances()) {
    CAPTURE(instance.name);
    const SearchProblem problem = problem_of(instance);
    SearchLimits everything;
    everything.use_bounds = false;
    const SearchResult all = search(problem, everything);
    const SearchResult quick = search(problem);
    REQUIRE(!all.plans.empty());
    REQUIRE(!quick.plans.empty());
    CHECK(quick.plans.front().step_time == all.plans.front().step_time);
    CHECK(quick.lower_bound == all.plans.front().step_time);
    CHECK(all.cut_by_bound == 0);
    CHECK(quick.simulated <= all.simulated);
    for (const Candidate& plan : all.plans) {
      CHECK(plan.needed_memory <= instance.cluster.device.memory);
      CHECK(plan.needed_memory >= plan.peak_memory);
      CHECK(plan.step_time >= all.plans.front().step_time);
    }
    for (const SearchResult* result : {&all, &quick})
      CHECK(result->enumerated ==
            static_cast<std::int64_t>(result->plans.size() + result->rejected.size()) +
                result->cut_by_bound);
  }
}

// What the fastest plan's arena leaves is one byte too little for its libraries.
TEST_CASE("a plan whose libraries do not fit beside its arena is cut, and they are named") {
  const Instance instance = instances()[2];
  const SearchProblem problem = problem_of(instance);
  const Candidate best = search(problem).plans.front();
  SearchLimits limits;
  limits.use_bounds = false;
  const auto is_best = [&](const auto& entry) { return entry.strategy == best.strategy; };
  limits.memory = best.needed_memory;
  const SearchResult fits = search(problem, limits);
  CHECK(std::any_of(fits.plans.begin(), fits.plans.end(), is_best));
  limits.memory = best.needed_memory - Bytes(1);
  CHECK(*limits.memory > best.peak_memory);
  const SearchResult cut = search(problem, limits);
  CHECK(std::none_of(cut.plans.begin(), cut.plans.end(), is_best));
  const auto found = std::find_if(cut.rejected.begin(), cut.rejected.end(), is_best);
  REQUIRE(found != cut.rejected.end());
  CHECK(found->reason.find("context 1.00 MiB") != std::string::npos);
}

TEST_CASE("two searches give the same table") {
  const std::vector<Instance> all = instances();
  const SearchProblem problem = problem_of(all[1]);
  const SearchResult a = search(problem), b = search(problem);
  REQUIRE(a.plans.size() == b.plans.size());
  for (std::size_t i = 0; i < a.plans.size(); ++i) {
    CHECK(a.plans[i].strategy == b.plans[i].strategy);
    CHECK(a.plans[i].step_time == b.plans[i].step_time);
    CHECK(a.plans[i].peak_memory == b.plans[i].peak_memory);
  }
}

TEST_CASE("heads that tp does not divide are refused, not simulated") {
  Instance instance = instances()[1];
  instance.model = small_gpt(2, 2);  // two heads: tp=4 cannot be
  SearchLimits limits;
  limits.fixed = {"tp=4"};
  const SearchResult result = search(problem_of(instance), limits);
  CHECK(result.plans.empty());
  REQUIRE(!result.rejected.empty());
  CHECK(result.refused == static_cast<std::int64_t>(result.rejected.size()));
  CHECK(result.rejected.front().reason.find("heads") != std::string::npos);
}

TEST_CASE("a device that holds nothing gives no plan and says how much memory is missing") {
  Instance instance = instances()[0];
  instance.cluster.device.memory = Bytes(1000);
  const SearchResult result = search(problem_of(instance));
  CHECK(result.plans.empty());
  CHECK(result.cut_by_memory + result.refused == result.enumerated);
  CHECK(std::any_of(result.rejected.begin(), result.rejected.end(), [](const Rejection& one) {
    return one.reason.find("memory: ") != std::string::npos &&
           one.reason.find("of 1000 B") != std::string::npos;
  }));
}

TEST_CASE("a search that is stopped keeps what it has and still tells a true lower bound") {
  const std::vector<Instance> all = instances();
  const SearchProblem problem = problem_of(all[1]);
  const Duration best = search(problem).plans.front().step_time;
  for (const int polls : {0, 20, 42, 45, 50}) {
    CAPTURE(polls);
    SearchLimits limits;
    int left = polls;
    limits.stop = [&left] { return left-- <= 0; };
    const SearchResult result = search(problem, limits);
    CHECK(result.lower_bound <= best);
    if (!result.plans.empty()) CHECK(result.plans.front().step_time >= best);
    if (polls == 0) CHECK(!result.complete);
  }
}

TEST_CASE("an empty space is refused by what leaves it empty") {
  const std::vector<Instance> all = instances();
  SearchLimits limits;
  limits.fixed = {"tp=3"};
  CHECK_THROWS_WITH_AS(search(problem_of(all[1]), limits), doctest::Contains("tp=3"), Error);
}

TEST_CASE("why-not gives the best plan under the constraint and where the time goes") {
  const std::vector<Instance> all = instances();
  const SearchProblem problem = problem_of(all[1]);
  const SearchResult result = search(problem);
  const Candidate& chosen = result.plans.front();
  for (const char* constraint : {"tp=4", "pp=2", "micro_batch=1 dp=2"}) {
    CAPTURE(constraint);
    const WhyNot answer = why_not(problem, chosen, constraint);
    REQUIRE(answer.constrained);
    CHECK(StrategyFilter({"tp=4"}).accepts(answer.constrained->strategy) ==
          (std::string(constraint) == "tp=4"));
    CHECK(answer.constrained->step_time >= chosen.step_time);
    double sum = 0;
    for (const WhyNotTerm& term : answer.terms)
      if (term.unit == WhyNotTerm::Unit::kSeconds) sum += term.difference();
    const double difference =
        to_seconds(answer.constrained->step_time) - to_seconds(chosen.step_time);
    // Sums of doubles of at most the step time: 1e-12 of it is far above their rounding.
    CHECK(std::abs(sum - difference) <= 1e-12 * to_seconds(answer.constrained->step_time));
    CHECK(to_text(answer).find(constraint) != std::string::npos);
  }
}

TEST_CASE("why-not says why there is no plan") {
  Instance instance = instances()[1];
  instance.model = small_gpt(2, 2);
  const SearchProblem problem = problem_of(instance);
  const Candidate chosen = search(problem).plans.front();
  const WhyNot answer = why_not(problem, chosen, "tp=4");
  CHECK(!answer.constrained);
  CHECK(to_text(answer).find("heads") != std::string::npos);
  CHECK_THROWS_AS(why_not(problem, chosen, ""), Error);
  CHECK_THROWS_AS(why_not(problem, chosen, "tpp=4"), Error);
}

}  // namespace
}  // namespace sextant::search_test
