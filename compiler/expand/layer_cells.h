// What the operators of one layer take on the queues of a device, from the staged graph: nothing is
// expanded. Of use where many strategies share their layers and differ in what is around them.
#pragma once

#include "compiler/expand/expand.h"
#include "compiler/words/staged_graph.h"
#include "core/base/units.h"
#include "core/costs/cost_model.h"

#include <cstdint>
#include <optional>
#include <vector>

namespace sextant {

// A layer's part of a cell, per micro-batch. Queues run what they are given in order, cells one
// after another and layers one after another inside a cell, so these times add up: from the start
// of an operator of one layer to the start of the like operator of the next layer, along data and
// along queues, communication included.
struct LayerCell {
  // Between the first compute operators of this layer and of the next one; without a next one, to
  // the end of its last compute operator.
  Duration to_next, alone;
  // The same from the first compute operator that waits for the layer before, to the end of the
  // last one that the next layer waits for.
  Duration way_to_next, way;
  Duration work;  // of its compute operators
  bool operator==(const LayerCell&) const = default;
};

struct LayerCells {
  LayerCell forward;
  LayerCell backward;    // with what is computed again
  Duration weight_grad;  // compute
  Duration collectives;  // of forward, backward and weight gradients, on their queue
  bool operator==(const LayerCells&) const = default;
};

// Of a layer that has one before it and one behind it, in a staged graph of a single stage. Nothing
// where ranks have different shapes in these layers, or where the layer is not between its
// neighbours as above.
std::optional<LayerCells> layer_cells(const StagedGraph& staged, int layer, const CostModel& cost,
                                      const NetworkModel& network, const ExpandOptions& options);

// What a layer has on the queues of the first rank per micro-batch, whatever waits for what: for
// layers whose ranks have different shapes, and for those that have no like neighbours.
struct LayerQueues {
  // Compute: of forward; of backward without what is computed again, and that; of weight gradients.
  Duration forward, backward, again, weight_grad;
  Duration collectives;
  bool operator==(const LayerQueues&) const = default;
};

struct EdgeLayers {
  LayerQueues first, last;
};

// A layer's part of a cell on the queue of collectives, where parameters are gathered in every
// micro-batch (ZeRO 3). The gathers of a layer stand before all else of the layer in front of it,
// so what that one waits for on the same queue waits for them too.
struct FetchingCell {
  Duration fetch;  // the gathers of one layer, at least what they take in buckets
  // From the gathers of the next layer to the end of this one's last collective.
  Duration to_next;
  // From the first to the end of the last of this one's collectives, transfers to neighbours and
  // what may be done on their side left out: of the last layer of a cell.
  Duration alone;
  bool operator==(const FetchingCell&) const = default;
};
struct FetchingLayer {
  FetchingCell forward, backward;
  bool operator==(const FetchingLayer&) const = default;
};
// Of a layer that has one before it and one behind it, in a staged graph of a single stage. Nothing
// where it gathers nothing, where ranks have different shapes in these layers, or where the order
// of a cell is another one.
std::optional<FetchingLayer> fetching_layer(const StagedGraph& staged, int layer,
                                            const CostModel& cost, const NetworkModel& network,
                                            const ExpandOptions& options);

// Cells of layers of a staged graph whose products are whole: `cut`, what they take at least where
// the products whose sums are pending are cut into a number of pieces up to `pieces`
// (compiler/words/product_pieces.h): all but the last piece of a sum may be on its way while the
// product is made. `repeating`: of `cut`, where backward repeats forward in part or all of it,
// repetitions aside. Forward keeps less then, so more of it may be in fused operators: what may be
// costs nothing.
struct CutLayerCells {
  std::int64_t pieces = 1;
  LayerCells cut, repeating;
  // The same of the first and the last layer of the graph; nothing where parts were asked for.
  EdgeLayers edges, edges_repeating;
};
// How it is known what parts of operators take.
enum class PartTimes : std::uint8_t {
  kShares,  // no part takes less than its share of the whole; holds for any number of pieces
  // The model is asked what a piece takes, and boxing of what may come in pieces is free. Holds for
  // the numbers of pieces that are asked for.
  kAsked,
};
// For each number of `pieces`, which rise; of one piece `cut` is what the layers take. With kAsked
// it ends before the first number that does not cut all products evenly, and where operators are
// fused behind one piece.
std::optional<std::vector<CutLayerCells>> cut_layer_cells(
    const StagedGraph& staged, int layer, const CostModel& cost, const NetworkModel& network,
    const ExpandOptions& options, const std::vector<std::int64_t>& pieces, PartTimes times);

}  // namespace sextant
