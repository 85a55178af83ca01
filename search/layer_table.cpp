// One small graph is staged per kind of layer; the rest is looked up.
#include "search/layer_table.h"

#include "compiler/schedule.h"
#include "compiler/stage.h"
#include "search/node_facts.h"
#include "search/space.h"

#include <algorithm>
#include <cstdint>

namespace sextant {
namespace {

// A run of so many ranks lies among nodes and tiers like every other run of that length.
bool lies_alike(const Cluster& cluster, std::int64_t ranks) {
  const auto fits = [&](std::int64_t size) { return ranks % size == 0 || size % ranks == 0; };
  return cluster.other_devices.empty() && cluster.outer_tiers.empty() &&
         fits(cluster.devices_per_node);
}

// Of the strategy, what its layers depend on: what dp brings moves once per step.
Strategy layer_strategy(const Strategy& strategy) {
  Strategy own;
  own.dp = strategy.ep;
  own.tp = strategy.tp;
  own.cp = strategy.cp;
  own.context = strategy.context;
  own.ep = strategy.ep;
  own.micro_batch = strategy.micro_batch;
  own.sequence_parallel = strategy.sequence_parallel;
  own.recompute = strategy.recompute;
  own.pieces = strategy.pieces;
  // Where weight gradients are cells of their own, products of backward are cut as well.
  if (own.pieces > 1 && splits_backward(strategy.schedule)) own.schedule = Schedule::kZeroBubbleH1;
  own.key_head_parts = strategy.key_head_parts;
  return own;
}

}  // namespace

bool LayerTable::applies_to(const Strategy& strategy) const {
  return strategy.order == kUsualOrder && strategy.pins.empty() &&
         lies_alike(cluster_, layer_strategy(strategy).ranks());
}

const StagedLayer* LayerTable::staged(const Strategy& strategy, const StopPoll& stop) {
  if (!applies_to(strategy) || !shorter_.has_middle()) return nullptr;
  const Strategy own = layer_strategy(strategy);
  const std::string key = to_string(own);
  auto known = known_.find(key);
  if (known == known_.end()) known = known_.emplace(key, made(own, stop)).first;
  return known->second ? &*known->second : nullptr;
}

bool LayerTable::is_staged(const Strategy& strategy) const {
  return known_.contains(to_string(layer_strategy(strategy)));
}

std::optional<StagedLayer> LayerTable::made(const Strategy& strategy, const StopPoll& stop) const {
  constexpr std::int64_t kMicroBatches = 2;
  // What was measured need not be less for parts than for the whole.
  const bool may_cut = strategy.pieces == 1 && !cluster_.device.measured;
  try {
    const LogicalGraph& graph = shorter_.graph(strategy);
    const StagedGraph staged =
        models_.boxing ? make_staged_graph(graph, strategy, kMicroBatches, *models_.boxing, stop)
                       : make_staged_graph(graph, strategy, kMicroBatches, models_.network.get(),
                                           models_.cost.get(), stop);
    const auto cells =
        cut_layer_cells(staged, ShorterModel::kMiddle, *models_.cost, *models_.network,
                        ExpandOptions(), may_cut ? StrategySpace::kMostPieces : 1);
    if (!cells) return std::nullopt;
    return StagedLayer{cells->whole, cells->cut, cells->repeating,
                       static_cast<std::int64_t>(staged.ops.size())};
  } catch (const Error& error) {
    if (!is_refusal(error)) throw;
    return std::nullopt;
  }
}

}  // namespace sextant
