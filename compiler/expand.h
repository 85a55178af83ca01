// Staged graph -> physical graph: blocks and instances, programs per rank class, schedule, issue
// order, memory plan, guards, checks.
#pragma once

#include "compiler/staged_graph.h"
#include "compiler/strategy.h"
#include "core/cost_model.h"
#include "core/physical_graph.h"

namespace sextant {

enum class SlotLifetime : std::uint8_t { kIssueOrder, kModelled };

struct ExpandOptions {
  Schedule schedule = Schedule::kOneFOneB;
  SlotLifetime slot_lifetime = SlotLifetime::kIssueOrder;
  bool launch_groups = false;  // merge neighbouring opposite transfers
  bool plan_memory = true;     // false: unique addresses, no reuse (a reference for tests)
};

// Throws Error(kInfeasible) when the order cannot run (dry run). The result passes validate() and
// check_byte_order().
PhysicalGraph expand(const StagedGraph& staged, const CostModel& cost, const NetworkModel& network,
                     const ExpandOptions& options);

// The whole compiler: stages, words, boxing, expansion.
PhysicalGraph compile(const LogicalGraph& training, const Strategy& strategy,
                      std::int64_t global_batch, const CostModel& cost, const NetworkModel& network,
                      ExpandOptions options = {});

}  // namespace sextant
