// A model of three blocks in the place of a deep one whose blocks are alike: what is known of its
// five layers is known of all layers of the whole model.
#pragma once

#include "core/base/at.h"
#include "core/graphs/logical_graph.h"
#include "search/problem/candidate.h"
#include "search/problem/recent_graphs.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace sextant {

class ShorterModel {
 public:
  static constexpr int kBlocks = 3, kMiddle = 2;
  static constexpr int kLayers = kBlocks + 2;  // with the one before and the one behind the blocks

  // All arguments outlive it. `training`: the plain graph of the whole model, of `samples`.
  ShorterModel(const SearchProblem& problem, const LogicalGraph& training, std::int64_t samples)
      : problem_(problem), training_(training), samples_(samples) {}

  // Whether the layer is the same operators as the middle block, whatever the samples: they differ
  // in where the layers before and behind it are, and updates are not looked at.
  bool is_like_middle(int layer) { return is_like(layer, kMiddle); }
  // The same of the first or the last layer of the whole and of the shorter model.
  bool is_like(int layer, int of_shorter) { return at(like(), layer) == of_shorter; }
  bool has_middle();  // some layer is

  // By layer of the whole model the one that it is like, whose neighbours are like its own; nothing
  // where a layer has none.
  std::optional<std::vector<int>> like_layers();

  // The training graph of the three blocks, until several others were asked for. Throws what
  // building it throws.
  const LogicalGraph& graph(const Strategy& strategy);

 private:
  // Of layers of the shorter model; -1: of none. Compared once, when it is first asked for: a
  // search that compiles no second plan has no use for it.
  const std::vector<int>& like();
  std::vector<int> compared();

  const SearchProblem& problem_;
  const LogicalGraph& training_;
  const std::int64_t samples_;
  std::optional<std::vector<int>> like_;
  RecentGraphs graphs_{32};  // nodes of several samples are looked at in turns
};

}  // namespace sextant
