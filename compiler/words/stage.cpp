// Where everything goes: placements, stages of layers, and the staged graph in one call.
#include "compiler/words/stage.h"

#include "compiler/strategy/schedule.h"
#include "compiler/words/key_heads.h"
#include "compiler/words/product_pieces.h"
#include "compiler/words/stage_builder.h"
#include "core/base/check.h"
#include "sbp/boxing_plans.h"

#include <optional>
#include <utility>

namespace sextant {
namespace {

// From one member of the axis to the next.
std::int64_t rank_step(const Strategy& strategy, RankAxis axis) {
  std::int64_t step = 1;
  for (const RankAxis inner : strategy.order) {
    if (inner == axis) break;
    step *= extent_of(strategy, inner);
  }
  return step;
}

// Ranks from one index to the next, by axis of the mesh, where kv stands around the rest of tp.
std::vector<std::int64_t> rank_steps(const Strategy& strategy, const std::vector<MeshAxis>& mesh) {
  const StrategyAxes axes = axes_of(strategy);
  std::vector<std::int64_t> steps(mesh.size(), 1);
  steps[axes.dp] = rank_step(strategy, RankAxis::kDp);
  if (axes.ep) steps[*axes.ep] = rank_step(strategy, RankAxis::kEp);
  if (axes.cp) steps[*axes.cp] = rank_step(strategy, RankAxis::kCp);
  steps[axes.tp] = rank_step(strategy, RankAxis::kTp);
  if (axes.kv) steps[*axes.kv] = steps[axes.tp] * mesh[axes.tp].extent;
  return steps;
}

std::vector<std::int64_t> spread_over(const std::vector<std::int64_t>& ranks, std::int64_t extent,
                                      std::int64_t step) {
  std::vector<std::int64_t> spread;
  spread.reserve(ranks.size() * static_cast<std::size_t>(extent));
  for (const std::int64_t rank : ranks)
    for (std::int64_t member = 0; member < extent; ++member) spread.push_back(rank + member * step);
  return spread;
}

}  // namespace

std::vector<Placement> make_placements(const Strategy& strategy) {
  const std::vector<MeshAxis> axes = mesh_axes(strategy);
  const std::vector<std::int64_t> steps = rank_steps(strategy, axes);
  const std::int64_t stage_step = rank_step(strategy, RankAxis::kPp);
  std::vector<Placement> placements;
  for (std::int64_t stage = 0; stage < strategy.pp; ++stage) {
    std::vector<std::int64_t> ranks = {stage * stage_step};
    for (std::size_t axis = 0; axis < axes.size(); ++axis)
      ranks = spread_over(ranks, axes[axis].extent, steps[axis]);
    Placement placement{.axes = axes, .ranks = {}};
    placement.ranks.reserve(ranks.size());
    for (const std::int64_t rank : ranks) placement.ranks.push_back(Rank(static_cast<int>(rank)));
    placements.push_back(std::move(placement));
  }
  return placements;
}

StagedGraph make_staged_graph(const LogicalGraph& training, const Strategy& strategy,
                              std::int64_t micro_batches, const NetworkModel* network,
                              const CostModel* cost, const StopPoll& stop) {
  BoxingTables tables(network, cost);
  return make_staged_graph(training, strategy, micro_batches, tables, stop);
}

StagedGraph make_staged_graph(const LogicalGraph& training, const Strategy& given_strategy,
                              std::int64_t micro_batches, BoxingTables& tables,
                              const StopPoll& stop) {
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
  BoxingPlans& by_bytes = tables.by_bytes;
  stop();
  WordAssignment words =
      infer_words(training, placements, stage_of_layer, given.constraints, by_bytes);
  stop();
  if (strategy.sequence_parallel && strategy.tp > 1) {
    split_sequences(training, strategy, words, given);
    words = infer_words(training, placements, stage_of_layer, given.constraints, by_bytes);
    stop();
  }
  std::optional<LogicalGraph> in_pieces;
  if (strategy.pieces > 1) {
    GraphWithWords cut = cut_products(training, strategy, stage_of_layer, words, given);
    given = std::move(cut.words);
    in_pieces = std::move(cut.graph);
    stop();
    words = infer_words(*in_pieces, placements, stage_of_layer, given.constraints, by_bytes);
  }
  const LogicalGraph& logical = in_pieces ? *in_pieces : training;
  StagedGraph graph = StageBuilder(logical, placements, stage_of_layer, virtual_stage_of_layer,
                                   rates_of(logical), words, given.times, tables.chosen)
                          .run(micro_batches, stop);
  if (strategy.virtual_stages > 1) graph.chunk_of_layer = std::move(chunk_of_layer);
  return graph;
}

}  // namespace sextant
