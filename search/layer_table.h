// What layers take in the strategies of a search (compiler/layer_cells.h), from a model of three
// blocks: its middle one stands for all layers of the whole model that are the same operators.
#pragma once

#include "compiler/layer_cells.h"
#include "compiler/stop_poll.h"
#include "core/cluster.h"
#include "core/logical_graph.h"
#include "search/search.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace sextant {

class LayerTable {
 public:
  // All arguments outlive it. `training`: the plain graph of the whole model, of `samples`.
  LayerTable(const SearchProblem& problem, const SearchModels& models, const Cluster& cluster,
             const LogicalGraph& training, std::int64_t samples);

  // Whether the middle block speaks for a layer of the whole model; known once `cells` was asked.
  bool stands_for(int layer) const { return stands_for_[static_cast<std::size_t>(layer)]; }

  // With the recomputation of `strategy`, of which kLayers is not asked for. nullptr: not known, or
  // the model cannot have the strategy. Stops while it stages.
  const LayerCells* cells(const Strategy& strategy, const StopPoll& stop);

 private:
  bool applies_to(const Strategy& strategy) const;
  // Compares layers, once: a search that compiles no second plan has no use for it.
  bool is_of_use();
  void compare_layers();
  std::optional<LayerCells> staged_cells(const Strategy& strategy, const StopPoll& stop) const;

  const SearchProblem& problem_;
  const SearchModels& models_;
  const Cluster& cluster_;
  const LogicalGraph& training_;
  const std::int64_t samples_;
  std::vector<bool> stands_for_;
  std::optional<bool> is_of_use_;
  std::map<std::string, std::optional<LayerCells>> known_;
};

}  // namespace sextant
