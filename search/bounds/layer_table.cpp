// One small graph is staged per kind of layer; the rest is looked up.
#include "search/bounds/layer_table.h"

#include "compiler/strategy/schedule.h"
#include "compiler/words/stage.h"
#include "core/base/at.h"
#include "core/graphs/tensor_types.h"
#include "search/bounds/kept_bytes.h"
#include "search/bounds/node_facts.h"
#include "search/space/space.h"

#include <algorithm>
#include <cstdint>
#include <utility>

namespace sextant {
namespace {

// Boxing among the axes of experts: Mixtral 8x7B takes 0.3 s with three of them, up to 0.16 s with
// two; layers without experts take 0.02 to 0.05 s.
std::int64_t work_of(const Strategy& layer) {
  if (layer.ep == 1) return 1;
  constexpr std::int64_t kPerAxis = 4;
  return (layer.cp > 1 ? kPerAxis : 1) * (layer.tp > 1 ? kPerAxis : 1);
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

// Nothing of what does not owe the sum on all of the axes.
Bytes pending_over(const std::vector<std::size_t>& axes, const StagedTensor& tensor) {
  const bool is_pending = std::all_of(
      axes.begin(), axes.end(), [&](std::size_t axis) { return tensor.words[axis].is_partial(); });
  return is_pending ? size_of(tensor.global) : Bytes();
}

bool is_split_on(const std::vector<std::size_t>& axes, const StagedTensor& tensor) {
  return std::any_of(axes.begin(), axes.end(),
                     [&](std::size_t axis) { return tensor.words[axis].is_split(); });
}

bool is_once_per_step(const StagedGraph& staged, StagedTensorId index) {
  const StagedTensor& tensor = staged.tensors[index];
  return tensor.is_state || staged.ops[tensor.producer].rate == Rate::kPerStep;
}

}  // namespace

bool lies_alike(const Cluster& cluster, std::int64_t ranks) {
  const auto fits = [&](std::int64_t size) { return ranks % size == 0 || size % ranks == 0; };
  return cluster.other_devices.empty() && cluster.outer_tiers.empty() &&
         fits(cluster.devices_per_node);
}

// The least number that is no smaller.
const CutLayerCells* StagedLayer::in_pieces(std::int64_t pieces) const {
  const auto found = std::find_if(cells.begin(), cells.end(),
                                  [&](const CutLayerCells& one) { return one.pieces >= pieces; });
  return found == cells.end() ? nullptr : &*found;
}

bool LayerTable::applies_to(const Strategy& strategy) const {
  return strategy.order == kUsualOrder && strategy.pins.empty() &&
         lies_alike(cluster_, layer_strategy(strategy).ranks());
}

// Of a strategy as `layer_strategy` makes it. Half of what raising a bound took was its text.
LayerTable::LayerKey LayerTable::key_of(const Strategy& layer) {
  return {layer.ep,
          layer.tp,
          layer.cp,
          layer.context,
          layer.micro_batch,
          layer.sequence_parallel,
          layer.recompute.kind,
          layer.pieces,
          splits_backward(layer.schedule),
          layer.key_head_parts};
}

const StagedLayer* LayerTable::staged(const Strategy& strategy, const StopPoll& stop) {
  if (!applies_to(strategy) || !shorter_.has_middle()) return nullptr;
  const Strategy own = layer_strategy(strategy);
  const LayerKey key = key_of(own);
  auto known = known_.find(key);
  if (known == known_.end()) {
    if (is_in_vain(own)) return nullptr;
    known = known_.emplace(key, made(own, stop)).first;
    staging_work_ += work_of(own);
    if (own.cp > 1) {
      Tries& tries = tries_[kind_of(own)];
      ++tries.staged;
      if (known->second) ++tries.known;
    }
  }
  return known->second ? &*known->second : nullptr;
}

const FetchingLayer* LayerTable::fetching(const Strategy& strategy, const StopPoll& stop) {
  if (strategy.zero != 3 || strategy.dp == 1) return nullptr;
  Strategy own = layer_strategy(strategy);
  // Fused gradients of inputs and weights would stand on a path where the former stand alone.
  if (splits_backward(strategy.schedule)) own.schedule = Schedule::kZeroBubbleH1;
  if (!applies_to(strategy) || !shorter_.has_middle() || is_in_vain(own)) return nullptr;
  const auto key = std::pair(strategy.dp, key_of(own));
  own.dp = strategy.dp;
  own.zero = strategy.zero;
  auto known = fetching_.find(key);
  if (known == fetching_.end()) {
    known = fetching_.emplace(key, made_fetching(own, stop)).first;
    staging_work_ += work_of(own);
  }
  return known->second ? &*known->second : nullptr;
}

// Replicas lie alike on every stage where each run of their ranks does.
std::optional<FetchingLayer> LayerTable::made_fetching(const Strategy& strategy,
                                                       const StopPoll& stop) const {
  const std::int64_t apart = strategy.tp * strategy.cp;
  for (const std::int64_t run : {strategy.tp, apart, apart * strategy.ep, strategy.ranks()})
    if (!lies_alike(cluster_, run)) return std::nullopt;
  try {
    ExpandOptions options;
    options.schedule = strategy.schedule;
    return fetching_layer(staged_graph(strategy, stop), ShorterModel::kMiddle, *models_.cost,
                          *models_.network, options);
  } catch (const Error& error) {
    if (!is_refusal(error)) throw;
    return std::nullopt;
  }
}

LayerTable::Kind LayerTable::kind_of(const Strategy& layer) {
  return {layer.context, layer.ep > 1, layer.sequence_parallel};
}

// Where nothing came out of several layers of one kind, nothing will of the others: rings whose
// ranks do not have equal parts of the experts' places.
bool LayerTable::is_in_vain(const Strategy& layer) const {
  constexpr std::int64_t kEnough = 4;
  if (layer.cp == 1) return false;
  const auto tries = tries_.find(kind_of(layer));
  return tries != tries_.end() && tries->second.staged >= kEnough && tries->second.known == 0;
}

bool LayerTable::is_staged(const Strategy& strategy) const {
  const Strategy own = layer_strategy(strategy);
  return is_in_vain(own) || known_.contains(key_of(own));
}

StagedGraph LayerTable::staged_graph(const Strategy& strategy, const StopPoll& stop) const {
  constexpr std::int64_t kMicroBatches = 2;
  const LogicalGraph& graph = shorter_.graph(strategy);
  if (models_.boxing)
    return make_staged_graph(graph, strategy, kMicroBatches, *models_.boxing, stop);
  return make_staged_graph(graph, strategy, kMicroBatches, models_.network.get(),
                           models_.cost.get(), stop);
}

std::optional<StagedLayer> LayerTable::made(const Strategy& strategy, const StopPoll& stop) const {
  std::vector<std::int64_t> pieces = {1};
  if (strategy.pieces == 1)
    while (pieces.back() < StrategySpace::kMostPieces) pieces.push_back(2 * pieces.back());
  // By measured kernels a part may take less than its share.
  const PartTimes times = cluster_.device.measured ? PartTimes::kAsked : PartTimes::kShares;
  try {
    const StagedGraph staged = staged_graph(strategy, stop);
    // Fused as under schedules that do not part gradients: a layer takes the least so.
    auto cells = cut_layer_cells(staged, ShorterModel::kMiddle, *models_.cost, *models_.network,
                                 ExpandOptions(), pieces, times);
    if (!cells) return std::nullopt;
    return StagedLayer{std::move(*cells), static_cast<std::int64_t>(staged.ops.size()),
                       kept_by_layer(staged, ShorterModel::kMiddle)};
  } catch (const Error& error) {
    if (!is_refusal(error)) throw;
    return std::nullopt;
  }
}

std::optional<LayerTable::Exchanged> LayerTable::exchanged(const Strategy& plain,
                                                           const StopPoll& stop) const {
  try {
    const StagedGraph staged = staged_graph(plain, stop);
    std::vector<std::size_t> axes = {axes_of(plain).dp};
    if (plain.cp > 1) axes.push_back(axes_of(plain).cp.value());
    Exchanged exchanged{.pending = {}, .reads_whole = true};
    for (const StagedOp& op : staged.ops) {
      if (op.layer != ShorterModel::kMiddle) continue;
      if (op.rate == Rate::kPerStep) {
        if (op.communication)
          exchanged.pending += pending_over(axes, staged.tensors[op.in.front()]);
        continue;
      }
      for (const StagedTensorId input : op.in)
        if (is_once_per_step(staged, input) && is_split_on(axes, staged.tensors[input]))
          exchanged.reads_whole = false;
    }
    return exchanged;
  } catch (const Error& error) {
    if (!is_refusal(error)) throw;
    return std::nullopt;
  }
}

}  // namespace sextant
