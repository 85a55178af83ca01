// Where everything goes: placements, stages of layers, and the staged graph in one call.
#include "compiler/stage.h"

#include "compiler/stage_builder.h"
#include "core/check.h"

#include <numeric>

namespace sextant {
namespace {

// `count` layers over `stages` stages, earlier ones get the remainder.
std::vector<int> spread_evenly(int count, int stages) {
  std::vector<int> layers(static_cast<std::size_t>(stages), count / stages);
  for (int stage = 0; stage < count % stages; ++stage) ++layers[static_cast<std::size_t>(stage)];
  return layers;
}

// Blocks of each stage when the first and the last are given by hand.
std::vector<int> spread_between(int blocks, int stages, int first, int last) {
  const auto left_over = [&](int left) {
    require(left == 0, ErrorCode::kInfeasible,
            "{} layers, first stage {}, last stage {}, {} stages: {} layers {}", blocks, first,
            last, stages, left > 0 ? left : -left, left > 0 ? "unassigned" : "too many");
  };
  if (stages == 1) {
    require(first == last, ErrorCode::kInfeasible,
            "one stage is both first and last: {} and {} layers do not agree", first, last);
    left_over(blocks - first);
    return {first};
  }
  const int middle = blocks - first - last;
  if (stages == 2 || middle < 0) left_over(middle);
  require(stages == 2 || middle >= stages - 2, ErrorCode::kInfeasible,
          "{} layers, first stage {}, last stage {}: {} layers are left for {} stages", blocks,
          first, last, middle, stages - 2);
  std::vector<int> layers = {first};
  if (stages > 2)
    for (const int count : spread_evenly(middle, stages - 2)) layers.push_back(count);
  layers.push_back(last);
  return layers;
}

}  // namespace

std::vector<Placement> make_placements(const Strategy& strategy) {
  std::vector<Placement> placements;
  const std::int64_t size = strategy.ranks() / strategy.pp;
  for (std::int64_t stage = 0; stage < strategy.pp; ++stage)
    placements.push_back(
        consecutive_placement(mesh_axes(strategy), Rank(static_cast<int>(stage * size))));
  return placements;
}

std::vector<int> stage_of_layers(int num_layers, const Strategy& strategy) {
  require(num_layers >= 1, ErrorCode::kInfeasible, "a model without layers");
  const int stages = static_cast<int>(strategy.pp);
  const int blocks = num_layers > 2 ? num_layers - 2 : 0;
  require(stages == 1 || blocks >= stages, ErrorCode::kInfeasible,
          "pp={}: more stages than the {} layers between the first and the last; pp that would "
          "do: 1 to {}",
          stages, blocks, blocks < 1 ? 1 : blocks);
  std::vector<int> layers;
  if (strategy.first_last_layers.empty()) {
    layers = spread_evenly(blocks, stages);
  } else {
    require(strategy.first_last_layers.size() == 2, ErrorCode::kUsage,
            "first and last layers are {} numbers, wanted 2", strategy.first_last_layers.size());
    layers = spread_between(blocks, stages, strategy.first_last_layers[0],
                            strategy.first_last_layers[1]);
  }
  std::vector<int> stage_of_layer = {0};
  for (int stage = 0; stage < stages; ++stage)
    stage_of_layer.insert(stage_of_layer.end(),
                          static_cast<std::size_t>(layers[static_cast<std::size_t>(stage)]), stage);
  if (num_layers > 1) stage_of_layer.push_back(stages - 1);
  SEXTANT_INVARIANT(static_cast<int>(stage_of_layer.size()) == num_layers,
                    "{} layers got a stage, of {}", stage_of_layer.size(), num_layers);
  return stage_of_layer;
}

StagedGraph make_staged_graph(const LogicalGraph& training, const Strategy& strategy,
                              std::int64_t micro_batches, const NetworkModel* network) {
  require(micro_batches >= 1, ErrorCode::kUsage, "a step of {} micro-batches", micro_batches);
  const std::vector<Placement> placements = make_placements(strategy);
  const std::vector<int> stage_of_layer = stage_of_layers(training.num_layers(), strategy);
  const WordAssignment words =
      infer_words(training, placements, stage_of_layer, strategy_words(training, strategy));
  return StageBuilder(training, placements, stage_of_layer, rates_of(training), words, network)
      .run(micro_batches);
}

}  // namespace sextant
