// Where a stretch of launches of one unit is cut into pieces that can recur: between layers.
#pragma once

#include "core/graphs/physical_graph.h"
#include "simulator/modes/recurring/block_order.h"

#include <cstdint>
#include <vector>

namespace sextant {

struct BlockPiece {
  std::int32_t first = 0, count = 0;  // in BlockOrder::entries
};

// Appends the pieces of a stretch. A piece has as many layers as keep the launches of each of its
// queues well below the window: what the window refers to is then launches that are long over.
void cut_stretch(const FlatTape& flat, const PhysicalGraph& graph, const BlockOrder& order,
                 const BlockOrder::Item& stretch, std::int64_t window,
                 std::vector<BlockPiece>& pieces);

}  // namespace sextant
