// Bounds that know the communication inside layers, against what the simulator says.
#include "compiler/layer_cells.h"
#include "compiler/stage.h"
#include "compiler/training_graph.h"
#include "search/least_costs.h"
#include "search/node_facts.h"
#include "simulator/cluster_file.h"
#include "tests/search/small_spaces.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace sextant::layer_bounds_test {
namespace {

using namespace small_spaces;

std::vector<SearchInstance> instances_with_like_layers() {
  Cluster two_nodes = load_cluster("dgx-h100:nodes=1");
  two_nodes.nodes = 2;
  two_nodes.devices_per_node = 4;
  return {{"one node", small_gpt(6, 4), load_cluster("dgx-h100:nodes=1"), 8, DType::kBF16},
          {"two nodes", small_gpt(4, 8), two_nodes, 16, DType::kBF16},
          {"processor cores", small_gpt(4, 4), load_cluster("cpu:ranks=4,memory=2GiB"), 8,
           DType::kF32}};
}

TEST_CASE("no bound with the communication inside layers exceeds what the simulator says") {
  for (const SearchInstance& instance : instances_with_like_layers()) {
    CAPTURE(instance.name);
    const SearchProblem problem = problem_of(instance);
    const SearchModels models = make_search_models(problem);
    const LeastCosts costs(instance.cluster, instance.dtype, *models.cost);
    const FirstGraph first = first_graph(problem);
    const StopPoll never;
    NodeFacts facts(problem, instance.cluster, costs, first, models, never);
    const std::vector<Strategy> leaves = leaves_of(space_of(instance));
    const std::size_t stride = std::max<std::size_t>(1, leaves.size() / 16);
    std::int64_t compiled = 0, higher = 0;
    for (std::size_t index = 0; index < leaves.size(); index += stride) {
      const Strategy& strategy = leaves[index];
      const std::string text = to_string(strategy);
      CAPTURE(text);
      try {
        const Candidate candidate = evaluate_strategy(problem.training_graph(strategy), strategy,
                                                      instance.global_batch, models);
        const Duration bound = facts.bound_with_layers(strategy);
        CHECK(bound <= candidate.step_time);
        if (bound > facts.bound_of({Level::kPieces, strategy})) ++higher;
        ++compiled;
      } catch (const Error& error) {
        const std::string reason = error.what();
        CAPTURE(reason);
        CHECK(error.code() == ErrorCode::kInfeasible);
      }
    }
    CHECK(compiled > 3);
    CHECK(higher > compiled / 4);
  }
}

// One layer between two like ones takes what it takes, however many there are.
TEST_CASE("the middle one of three blocks speaks for all blocks of a longer model") {
  const SearchInstance instance = instances_with_like_layers()[0];
  const SearchProblem problem = problem_of(instance);
  const SearchModels models = make_search_models(problem);
  for (const char* text : {"tp=2", "dp=2 tp=4", "dp=2 tp=2 sp=on", "tp=4 sp=on pieces=2",
                           "tp=2 pieces=4", "tp=2 sp=on recompute=full", "tp=2 recompute=selective",
                           "cp=2 tp=2", "dp=2 cp=2 cp_mode=a2a", "dp=4"}) {
    CAPTURE(text);
    const Strategy strategy = parse_strategy(std::string(text) + " micro_batch=2");
    const auto cells_of = [&](int blocks, int layer) {
      const StagedGraph staged =
          make_staged_graph(problem.shorter_graph(strategy, blocks), strategy, 2, *models.boxing);
      return layer_cells(staged, layer, *models.cost, *models.network, ExpandOptions());
    };
    const std::optional<LayerCells> middle = cells_of(3, 2);
    REQUIRE(middle);
    CHECK(middle->forward.alone <= middle->forward.to_next);
    CHECK(middle->forward.work <= middle->forward.alone);
    for (const int layer : {2, 3, 5}) CHECK(cells_of(6, layer) == middle);
  }
}

}  // namespace
}  // namespace sextant::layer_bounds_test
