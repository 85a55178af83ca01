// What a plan moves between devices, and what it only changes in place: every boxing with its cost
// in a step. Read by `explain`, by `plan diff` and by pages.
#pragma once

#include "compiler/words/boxing_causes.h"
#include "compiler/words/staged_graph.h"
#include "core/base/units.h"
#include "core/costs/cost_model.h"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace sextant {

// Equal boxings of equal layers.
struct BoxingRow {
  std::string name, phase, primitive, axes, words;
  std::string producer;              // "layer*.mlp.down (matmul): (S(0), P(sum))"
  std::vector<std::string> readers;  // "layer*.mlp.down.biased[0] (bias_add): (S(0), B)"
  BoxingCost cost;
  std::int64_t per_step = 0;  // acts of all its layers
  int first_stage = 0, last_stage = 0;

  Duration total() const { return cost.each * per_step; }
  Bytes moved_per_step() const { return cost.moved * per_step; }
};

// The dearest first.
std::vector<BoxingRow> boxing_rows(const StagedGraph& graph, const NetworkModel& network,
                                   const CostModel& cost);

// Sums over rows; times of different stages and queues overlap.
struct BoxingTotal {
  std::int64_t acts = 0;
  Bytes moved;
  Duration time;
};
// By primitive, and under "all" over all of them.
std::map<std::string, BoxingTotal> boxing_totals(const std::vector<BoxingRow>& rows);

}  // namespace sextant
