// `simulate --routing`: how tokens were taken to fall on experts, and what that does to the plan.
#pragma once

#include "cli/console.h"
#include "compiler/expand/expand.h"
#include "simulator/costs/routed_graph.h"
#include "simulator/steps/timeline.h"

#include <nlohmann/json_fwd.hpp>

namespace sextant {

// Of the program with the largest peak, when its memory is used most: what tensors in the places of
// experts take, and at most how much of that is filled on the fullest of its ranks.
struct PlacesMemory {
  Bytes planned, filled;
};
// `timeline` has every class of ranks of the expanded graph, routed or not.
PlacesMemory places_memory(const RoutedGraph& routed, const ExpandedGraph& expanded,
                           const Timeline& timeline);

// How evenly experts are used and what is dropped, as a table and as part of the verb's document.
void say(const RoutedGraph& routed, const ExpertRouting& routing, const PlacesMemory& memory,
         const Console& console);
nlohmann::ordered_json routing_json(const RoutedGraph& routed, const ExpertRouting& routing,
                                    const PlacesMemory& memory);
// Of a model with experts that nobody gave a routing for.
void say_full_places(const ExpertSizes& sizes, const Console& console);

}  // namespace sextant
