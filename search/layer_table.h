// What layers take in the strategies of a search (compiler/layer_cells.h), from a model of three
// blocks: its middle one stands for all layers of the whole model that are the same operators.
#pragma once

#include "compiler/layer_cells.h"
#include "compiler/stop_poll.h"
#include "core/cluster.h"
#include "search/search.h"
#include "search/shorter_model.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace sextant {

struct StagedLayer {
  LayerCells cells;
  // Where the strategy has whole products and repeats nothing: what it takes at least in pieces,
  // and where more is repeated.
  LayerCells cut, repeating;
  std::int64_t num_ops = 0;  // of its graph, so at least of the layer
};

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
    return layer == nullptr ? nullptr : &layer->cells;
  }
  bool is_staged(const Strategy& strategy) const;
  // How many kinds of layers were staged.
  std::int64_t num_staged() const { return static_cast<std::int64_t>(known_.size()); }

 private:
  bool applies_to(const Strategy& strategy) const;
  std::optional<StagedLayer> made(const Strategy& strategy, const StopPoll& stop) const;

  const SearchModels& models_;
  const Cluster& cluster_;
  ShorterModel& shorter_;
  std::map<std::string, std::optional<StagedLayer>> known_;
};

}  // namespace sextant
