// What would make another plan win, against both plans simulated anew at the values that are
// stated.

#include "search/search/sensitivity.h"

#include "compiler/expand/expand.h"
#include "simulator/cluster_files/cluster_file.h"
#include "simulator/costs/models.h"
#include "simulator/reports/what_if.h"
#include "tests/search/small_spaces.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace sextant::sensitivity_test {
namespace {

using namespace small_spaces;

// Layers large enough for links to matter.
ModelConfig wide_gpt(std::int64_t hidden, std::int64_t sequence) {
  ModelConfig model = small_gpt(4, 8);
  model.hidden = hidden;
  model.head_size = hidden / 8;
  model.ffn = 4 * hidden;
  model.vocab = 4096;
  model.sequence = sequence;
  return model;
}

std::vector<SearchInstance> instances_of_links() {
  // Links slow enough for plans that move more to lose, and to win where they are faster.
  Cluster one_node = load_cluster("dgx-h100");
  one_node.intra_node.bandwidth.value /= 2;
  Cluster two_nodes = load_cluster("dgx-h100:nodes=2");
  two_nodes.devices_per_node = 2;
  two_nodes.intra_node.bandwidth.value /= 4;
  return {{"one node", wide_gpt(2048, 1024), one_node, 16, DType::kBF16},
          {"one node, wider", wide_gpt(4096, 512), load_cluster("dgx-h100"), 16, DType::kBF16},
          {"two nodes of two", wide_gpt(2048, 1024), two_nodes, 8, DType::kBF16}};
}

SearchLimits few_plans() {
  SearchLimits limits;
  limits.fixed = {"cp=1", "sp=off", "pieces=1", "micro_batch=1", "recompute=none", "schedule=1f1b"};
  limits.use_bounds = false;
  return limits;
}

// Compiled where the plan was found, simulated where a link has `factor` times the bandwidth.
Duration step_with(const SearchProblem& problem, const Strategy& strategy, const std::string& key,
                   double factor) {
  const TimingModels here = make_timing_models(*problem.cluster, problem.compute_dtype);
  const PhysicalGraph graph =
      compile(problem.training_graph(strategy), strategy, problem.global_batch, *here.cost,
              *here.network, {.room = arena_room(*problem.cluster), .checks = false});
  const TimingModels there =
      make_timing_models(changed(*problem.cluster, {.key = key, .factor = factor, .quantity = ""}),
                         problem.compute_dtype);
  return simulate(graph, *there.cost, *there.network).step_time;
}

TEST_CASE("the runner-up wins one percent beyond a stated change of a link, and loses before it") {
  int slower = 0, faster = 0;
  for (const SearchInstance& instance : instances_of_links()) {
    CAPTURE(instance.name);
    const SearchProblem problem = problem_of(instance);
    const SearchResult result = search(problem, few_plans());
    REQUIRE(result.plans.size() > 2);
    const std::optional<Sensitivity> answer = sensitivity(problem, result);
    REQUIRE(answer);
    const Strategy& best = result.plans.front().strategy;
    const Strategy& runner_up = result.plans[answer->runner_up].strategy;
    CHECK(answer->links.size() == (instance.cluster.nodes > 1 ? 4 : 2));  // both ways
    for (const LinkChange& change : answer->links) {
      CAPTURE(change.key);
      CAPTURE(change.faster);
      const auto wins = [&](double factor) {
        return step_with(problem, runner_up, change.key, factor) <
               step_with(problem, best, change.key, factor);
      };
      if (!change.factor) {
        CHECK(!wins(change.faster ? kMostChange : 1 / kMostChange));
        continue;
      }
      ++(change.faster ? faster : slower);
      const double beyond = change.faster ? 1.01 : 1 / 1.01;
      CHECK(change.faster == (*change.factor > 1));
      CHECK(wins(*change.factor * beyond));
      CHECK(!wins(*change.factor / beyond));
      CHECK(change.runner_up == step_with(problem, runner_up, change.key, *change.factor));
      CHECK(change.best == step_with(problem, best, change.key, *change.factor));
    }
  }
  CHECK(slower > 0);
  CHECK(faster > 0);
}

TEST_CASE("the runner-up has another mesh or schedule where some plan has") {
  const auto plan = [](const char* text) {
    Candidate candidate;
    candidate.strategy = parse_strategy(text);
    return candidate;
  };
  CHECK(!runner_up_of({plan("dp=2")}));
  CHECK(runner_up_of({plan("dp=2"), plan("dp=2 zero=1"), plan("dp=2 recompute=full")}) == 1);
  CHECK(runner_up_of({plan("dp=2"), plan("dp=2 zero=1"), plan("tp=2")}) == 2);
  CHECK(runner_up_of({plan("pp=2"), plan("pp=2 zero=1"), plan("pp=2 schedule=gpipe")}) == 2);
}

TEST_CASE(
    "with the least memory that is stated the best plan stays, with a byte less the next wins") {
  const SearchInstance instance = instances_of_links()[0];
  const SearchProblem problem = problem_of(instance);
  SearchLimits limits = few_plans();
  const SearchResult result = search(problem, limits);
  const MemoryChange change = memory_change(problem, result);
  const auto best_with = [&](Bytes memory) {
    limits.memory = memory;
    return search(problem, limits).plans.front();
  };
  CHECK(best_with(change.least).step_time == result.plans.front().step_time);
  REQUIRE(change.below);
  CHECK(best_with(change.least - Bytes(1)).step_time == result.plans[*change.below].step_time);
}

TEST_CASE("with the memory that is stated a faster plan fits, which did not") {
  SearchInstance instance = instances_of_links()[0];
  const MemoryChange before =
      memory_change(problem_of(instance), search(problem_of(instance), few_plans()));
  instance.cluster.device.memory = before.least - Bytes(1);
  const SearchResult result = search(problem_of(instance), few_plans());
  const MemoryChange change = memory_change(problem_of(instance), result);
  REQUIRE(change.above);
  CHECK(change.above->step_time < result.plans.front().step_time);
  CHECK(change.above->most_needed > instance.cluster.device.memory);
  instance.cluster.device.memory = change.above->most_needed;
  CHECK(search(problem_of(instance), few_plans()).plans.front().strategy == change.above->strategy);
}

TEST_CASE("another batch is compiled and timed for both plans") {
  const SearchInstance instance = tiny_instances()[0];  // two ranks, batch 2
  const SearchProblem problem = problem_of(instance);
  SearchLimits limits;
  limits.fixed = {"cp=1", "tp=1", "recompute=none", "zero=0", "micro_batch=1", "schedule=1f1b"};
  limits.use_bounds = false;
  const SearchResult result = search(problem, limits);
  REQUIRE(result.plans.size() == 2);  // dp=2 and pp=2
  const std::optional<Sensitivity> answer = sensitivity(problem, result);
  REQUIRE(answer);
  REQUIRE(answer->batch.size() == 3);
  const SearchModels models = make_search_models(problem);
  for (const BatchChange& change : answer->batch) {
    CAPTURE(change.global_batch);
    const auto step = [&](const Strategy& strategy) -> std::optional<Duration> {
      if (change.global_batch % strategy.dp != 0) return std::nullopt;
      return evaluate_strategy(problem.training_graph(strategy), strategy, change.global_batch,
                               models)
          .step_time;
    };
    CHECK(change.best == step(result.plans[0].strategy));
    CHECK(change.runner_up == step(result.plans[1].strategy));
  }
  // One sample is too few for two replicas.
  CHECK(answer->batch.front().global_batch == 1);
  CHECK(answer->batch.front().best.has_value() != answer->batch.front().runner_up.has_value());

  int polls = 0;
  limits.stop = [&polls] { return ++polls > 2; };
  const std::optional<Sensitivity> stopped = sensitivity(problem, result, limits);
  REQUIRE(stopped);
  CHECK(stopped->links.size() == 1);
  CHECK(stopped->batch.empty());
}

}  // namespace
}  // namespace sextant::sensitivity_test
