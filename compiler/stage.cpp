// Where everything goes: placements, stages of layers, and the staged graph in one call.
#include "compiler/stage.h"

#include "compiler/key_heads.h"
#include "compiler/product_pieces.h"
#include "compiler/schedule.h"
#include "compiler/stage_builder.h"
#include "core/check.h"
#include "sbp/boxing_plans.h"

#include <algorithm>
#include <optional>
#include <utility>

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

// Blocks of each virtual stage.
std::vector<int> spread_blocks(int blocks, const Strategy& strategy) {
  const auto stages = static_cast<int>(strategy.pp);
  const auto chunks = static_cast<int>(strategy.virtual_stages);
  if (strategy.first_last_layers.empty()) return spread_evenly(blocks, stages * chunks);
  require(strategy.first_last_layers.size() == 2, ErrorCode::kUsage,
          "first and last layers are {} numbers, wanted 2", strategy.first_last_layers.size());
  const std::vector<int> of_stage =
      spread_between(blocks, stages, strategy.first_last_layers[0], strategy.first_last_layers[1]);
  std::vector<int> layers(static_cast<std::size_t>(stages * chunks));
  for (int stage = 0; stage < stages; ++stage) {
    const int own = of_stage[static_cast<std::size_t>(stage)];
    require(own >= chunks, ErrorCode::kInfeasible,
            "stage {} has {} layers for virtual={} chunks; every chunk wants one", stage, own,
            chunks);
    const std::vector<int> of_chunk = spread_evenly(own, chunks);
    for (int chunk = 0; chunk < chunks; ++chunk)
      layers[static_cast<std::size_t>(virtual_stage(strategy.schedule, stages, stage, chunk))] =
          of_chunk[static_cast<std::size_t>(chunk)];
  }
  return layers;
}

// What would do instead of more virtual stages than blocks.
std::string fitting(int blocks, const Strategy& strategy) {
  const auto chunks = static_cast<int>(strategy.virtual_stages);
  const int most = std::max(blocks / chunks, 1);
  if (chunks == 1) return fmt::format("pp that would do: 1 to {}", most);
  const auto stages = static_cast<int>(strategy.pp);
  if (blocks < chunks) return fmt::format("virtual that would do: 1 to {}", std::max(blocks, 1));
  return fmt::format("pp that would do with virtual={}: 1 to {}; virtual with pp={}: 1 to {}",
                     chunks, most, stages, std::max(blocks / stages, 1));
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

std::vector<LayerPlace> place_layers(int num_layers, const Strategy& strategy) {
  require(num_layers >= 1, ErrorCode::kInfeasible, "a model without layers");
  const auto stages = static_cast<int>(strategy.pp);
  const std::int64_t all = strategy.pp * strategy.virtual_stages;
  const int blocks = num_layers > 2 ? num_layers - 2 : 0;
  require(all == 1 || blocks >= all, ErrorCode::kInfeasible,
          "pp={}{}: more {}stages than the {} layers between the first and the last; {}", stages,
          strategy.virtual_stages > 1 ? fmt::format(" virtual={}", strategy.virtual_stages) : "",
          strategy.virtual_stages > 1 ? "virtual " : "", blocks, fitting(blocks, strategy));
  const std::vector<int> layers = spread_blocks(blocks, strategy);
  const auto virtual_stages = static_cast<int>(all);
  std::vector<LayerPlace> places;
  for (int number = 0; number < virtual_stages; ++number) {
    const StageChunk at = stage_of_virtual(strategy.schedule, stages, number);
    const LayerPlace place{at.stage, at.chunk, number};
    if (number == 0) places.push_back(place);
    places.insert(places.end(), static_cast<std::size_t>(layers[static_cast<std::size_t>(number)]),
                  place);
    if (number == virtual_stages - 1 && num_layers > 1) places.push_back(place);
  }
  SEXTANT_INVARIANT(static_cast<int>(places.size()) == num_layers, "{} layers got a stage, of {}",
                    places.size(), num_layers);
  return places;
}

std::vector<int> stage_of_layers(int num_layers, const Strategy& strategy) {
  std::vector<int> stages;
  for (const LayerPlace& place : place_layers(num_layers, strategy)) stages.push_back(place.stage);
  return stages;
}

StagedGraph make_staged_graph(const LogicalGraph& training, const Strategy& given_strategy,
                              std::int64_t micro_batches, const NetworkModel* network,
                              const CostModel* cost) {
  require(micro_batches >= 1, ErrorCode::kUsage, "a step of {} micro-batches", micro_batches);
  const Strategy strategy = with_key_heads(given_strategy, training);
  require_schedule(strategy.schedule, {static_cast<std::int32_t>(strategy.pp),
                                       static_cast<std::int32_t>(micro_batches),
                                       static_cast<std::int32_t>(strategy.virtual_stages)});
  const std::vector<Placement> placements = make_placements(strategy);
  std::vector<int> stage_of_layer, chunk_of_layer, virtual_stage_of_layer;
  for (const LayerPlace& place : place_layers(training.num_layers(), strategy)) {
    stage_of_layer.push_back(place.stage);
    chunk_of_layer.push_back(place.chunk);
    virtual_stage_of_layer.push_back(place.virtual_stage);
  }
  StrategyWords given = strategy_words(training, strategy);
  BoxingPlans by_bytes(BoxingObjective::kBytes);
  WordAssignment words =
      infer_words(training, placements, stage_of_layer, given.constraints, by_bytes);
  if (strategy.sequence_parallel && strategy.tp > 1) {
    split_sequences(training, strategy, words, given);
    words = infer_words(training, placements, stage_of_layer, given.constraints, by_bytes);
  }
  std::optional<LogicalGraph> in_pieces;
  if (strategy.pieces > 1) {
    GraphWithWords cut = cut_products(training, strategy, stage_of_layer, words, given);
    given = std::move(cut.words);
    in_pieces = std::move(cut.graph);
    words = infer_words(*in_pieces, placements, stage_of_layer, given.constraints, by_bytes);
  }
  const LogicalGraph& logical = in_pieces ? *in_pieces : training;
  StagedGraph graph = StageBuilder(logical, placements, stage_of_layer, virtual_stage_of_layer,
                                   rates_of(logical), words, given.times, network, cost)
                          .run(micro_batches);
  if (strategy.virtual_stages > 1) graph.chunk_of_layer = std::move(chunk_of_layer);
  return graph;
}

}  // namespace sextant
