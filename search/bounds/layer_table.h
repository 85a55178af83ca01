// What layers take in the strategies of a search (compiler/expand/layer_cells.h), from a model of
// three blocks: its middle one stands for all layers of the whole model that are the same
// operators.
#pragma once

#include "compiler/expand/layer_cells.h"
#include "compiler/strategy/strategy.h"
#include "core/base/stop_poll.h"
#include "core/costs/cluster.h"
#include "search/bounds/shorter_model.h"
#include "search/problem/candidate.h"

#include <cstdint>
#include <map>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

namespace sextant {

struct StagedLayer {
  // Of the strategy itself the first. Where its products are whole, others say what it takes at
  // least in pieces: with measured kernels as far as all can be asked of them.
  std::vector<CutLayerCells> cells;
  std::int64_t num_ops = 0;  // of its graph, so at least of the layer
  Bytes kept;                // search/bounds/kept_bytes.h

  const LayerCells& own() const { return cells.front().cut; }
  // nullptr: not known of so many.
  const CutLayerCells* in_pieces(std::int64_t pieces) const;
};

// A run of so many ranks lies among nodes and tiers like every other run of that length.
bool lies_alike(const Cluster& cluster, std::int64_t ranks);

class LayerTable {
 public:
  // All arguments outlive it.
  LayerTable(const SearchModels& models, const Cluster& cluster, ShorterModel& shorter)
      : models_(models), cluster_(cluster), shorter_(shorter) {}

  // With the recomputation of `strategy`, of which kLayers is not asked for. nullptr: not known, or
  // the model cannot have the strategy. Stops while it stages.
  const StagedLayer* staged(const Strategy& strategy, const StopPoll& stop);
  const LayerCells* cells(const Strategy& strategy, const StopPoll& stop) {
    const StagedLayer* const layer = staged(strategy, stop);
    return layer == nullptr ? nullptr : &layer->own();
  }
  bool is_staged(const Strategy& strategy) const;
  // A layer of a strategy that gathers parameters in every micro-batch; nullptr where it gathers
  // none, where the layer is not known, or where the model cannot have the strategy.
  const FetchingLayer* fetching(const Strategy& strategy, const StopPoll& stop);
  // Of the middle layer in a step of `plain`, which has two members on dp, and perhaps on cp, and
  // nothing else.
  struct Exchanged {
    Bytes pending;  // gradients that owe a sum over these axes when the step has made them
    bool reads_whole = false;  // what micro-batches read of parameters is split on none of them
  };
  // Nothing where the model cannot have it.
  std::optional<Exchanged> exchanged(const Strategy& plain, const StopPoll& stop) const;
  // How many kinds of layers were staged; where ep, cp and tp are all in use it counts several
  // times, for boxing among three axes takes so much longer.
  std::int64_t staging_work() const { return staging_work_; }

 private:
  bool applies_to(const Strategy& strategy) const;
  bool is_in_vain(const Strategy& layer) const;
  StagedGraph staged_graph(const Strategy& strategy, const StopPoll& stop) const;
  std::optional<StagedLayer> made(const Strategy& strategy, const StopPoll& stop) const;
  std::optional<FetchingLayer> made_fetching(const Strategy& strategy, const StopPoll& stop) const;

  const SearchModels& models_;
  const Cluster& cluster_;
  ShorterModel& shorter_;
  // What the layers of a strategy depend on.
  using LayerKey = std::tuple<std::int64_t, std::int64_t, std::int64_t, ContextMode, std::int64_t,
                              bool, Recompute::Kind, std::int64_t, bool, std::int64_t>;
  static LayerKey key_of(const Strategy& layer);

  std::map<LayerKey, std::optional<StagedLayer>> known_;
  // Layers that gather, by dp and what else they depend on.
  std::map<std::pair<std::int64_t, LayerKey>, std::optional<FetchingLayer>> fetching_;
  // Of layers that split sequences, by how, whether experts are split and whether activations are:
  // staged, and known then.
  using Kind = std::tuple<ContextMode, bool, bool>;
  static Kind kind_of(const Strategy& layer);
  struct Tries {
    std::int64_t staged = 0, known = 0;
  };
  std::map<Kind, Tries> tries_;
  std::int64_t staging_work_ = 0;
};

}  // namespace sextant
