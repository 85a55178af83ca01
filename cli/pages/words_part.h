// Words per layer: every operator of forward with the words it reads and makes.
#pragma once

#include "cli/pages/page_part.h"
#include "cli/pages/plan_view.h"

#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace sextant {

// Operators that differ in nothing but the layer.
struct WordRow {
  std::string name, kind;
  std::vector<NdSbp> inputs;
  NdSbp result;
  std::set<int> layers, stages;
};
// Of forward, boxing and casts left out, in the order of the graph.
std::vector<WordRow> word_rows(const StagedGraph& graph);

PagePart words_part(const PlanView& plan);

}  // namespace sextant
