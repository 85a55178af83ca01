// How many choices of experts a step drops because the expert had no place left: counted on the
// device beside the dispatch, so that whoever trains is told what a capacity costs. No gradient and
// no other result depends on the count.
#pragma once

#include "compiler/training/optimizer.h"
#include "core/graphs/logical_graph.h"

#include <cstdint>
#include <optional>
#include <vector>

namespace sextant {

// Name of the metric.
inline constexpr const char* kDroppedChoices = "dropped_choices";

struct LayerCount {
  int layer = 0;
  TensorId count;  // scalar f32, of one micro-batch
};

// Appends to a forward graph, behind every dispatch that may drop something, the number of choices
// whose place its expert does not have.
std::vector<LayerCount> add_drop_counts(LogicalGraph& graph);

// Appends their sum over a step, layer by layer from the first to the last, as norms of gradients
// are added; nothing without counts.
std::optional<Metric> add_drop_total(LogicalGraph& graph, const std::vector<LayerCount>& counts);

// Choices that the dispatches of a forward or training graph make and may drop; 0: none may.
std::int64_t droppable_choices(const LogicalGraph& graph);

}  // namespace sextant
