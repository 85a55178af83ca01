// Words that a user fixes by name, on top of what a strategy implies.
#pragma once

#include "compiler/strategy/strategy.h"
#include "core/graphs/logical_graph.h"
#include "sbp/inference.h"

#include <string_view>

namespace sextant {

// The words that the last pin gives a tensor of this name; nullptr: no pin names it.
const NdSbp* pinned_words(const Strategy& strategy, std::string_view tensor);

// Adds every pin to `constraints`, later pins over earlier ones and over the strategy's own words.
// A pin without input names tensors: the words in which their producers leave them. With an input
// it names operators. Parameters are left out: their pins say what the strategy's words start from.
// Recomputed operators have no pins of their own: they repeat the words of their originals.
// Throws Error(kUsage) for a name that nothing has, naming the nearest, and for words that do not
// fit: the operator, the tensor, its shape and what would do.
void apply_pins(const LogicalGraph& training, const Strategy& strategy,
                WordConstraints& constraints);

}  // namespace sextant
