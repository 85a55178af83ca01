// Modelled time of every actor, from the cost snapshot of the plan: the only durations that the
// issue order and the memory plan see.
#pragma once

#include "compiler/expand/blocks.h"
#include "compiler/order/moved_sizes.h"
#include "compiler/order/stage_program.h"
#include "core/base/table.h"
#include "core/costs/cost_model.h"
#include "core/graphs/physical_graph.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace sextant {

class DurationTable {
 public:
  // `graph` has layouts, placements, groups and blocks. Where classes of a stage differ, the
  // slowest decides: they run in one order.
  DurationTable(const PhysicalGraph& graph, const BlockForms& forms, const BlockTable& blocks,
                std::span<const ProgramClass> classes, const GroupTable& groups,
                const CostModel& cost, const NetworkModel& network, MovedSizes& sizes);

  std::span<const Duration> of_form(FormId form) const { return by_form_[form]; }

 private:
  Table<FormId, std::vector<Duration>> by_form_;
};

}  // namespace sextant
