// All that a page says of a plan: compiled and simulated here.
#pragma once

#include "cli/pages/origin.h"
#include "cli/sections/boxing_rows.h"
#include "cli/sections/memory_section.h"
#include "cli/workflow.h"
#include "compiler/strategy/rank_use.h"
#include "simulator/costs/library_memory.h"
#include "simulator/modes/simulate.h"
#include "simulator/reports/link_use.h"
#include "simulator/reports/operator_use.h"

#include <optional>
#include <string>
#include <vector>

namespace sextant {

struct PlanView {
  std::string name;  // as it was named: "plan.json"
  PlannedJob planned;
  std::string plan_hash;
  ExpandedGraph expanded;
  StagedGraph staged;
  Timeline timeline;
  Simulation simulation;
  MemorySection memory;
  DeviceMemory tightest;  // the device with least room left
  std::vector<OperatorUse> operators;
  std::vector<BoxingRow> boxing;
  LinkUses links;
  RankUse use;

  const PhysicalGraph& graph() const { return expanded.graph(); }
  const Strategy& strategy() const { return planned.plan.strategy; }
  double step_s() const { return to_seconds(simulation.step_time); }
  std::string title() const;  // "gpt2-124m on dgx-h100"

  // "plan.json, plan 12ab...", and what is simulated of it.
  Origin counted() const;
  Origin simulated() const;
};

// Throws what the compiler and the simulator throw. A plan that does not fit is no error: the page
// says so.
PlanView plan_view(PlannedJob planned, const std::string& name);

}  // namespace sextant
