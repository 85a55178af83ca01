// What a layer keeps of a micro-batch from its forward to its backward, from the staged graph: in
// the words that it has there, so what a mesh axis leaves whole counts whole.
#pragma once

#include "compiler/words/staged_graph.h"
#include "core/base/units.h"

namespace sextant {

// Bytes that a layer keeps for backward on the device that keeps most, at least. The layer has one
// before it, in a graph of one stage without fused operators. What the layer before made, and does
// not keep itself, counts here: wherever the stage begins it is there, made or received.
Bytes kept_by_layer(const StagedGraph& staged, int layer);

}  // namespace sextant
