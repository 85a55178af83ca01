// `simulate --what-if` and `--sweep`: the same physical graph in changed machine rooms.
#pragma once

#include "cli/console.h"
#include "cli/sections/simulation_setup.h"
#include "cli/workflow.h"
#include "simulator/modes/simulate.h"
#include "simulator/reports/what_if.h"

#include <nlohmann/json_fwd.hpp>

#include <string>
#include <vector>

namespace sextant {

struct WhatIfRow {
  std::string text;  // "link.ib.bandwidth=2x"
  double step_s = 0;
  StepParts parts;
  bool fits = true;  // in the memory of the changed device
};

// A compiled plan, and what it cannot do without where memory is what changes.
struct CompiledPlan {
  const PhysicalGraph& graph;
  std::vector<Bytes> tight;  // arenas by program
};

// The plan stays, with the issue order and the boxing it was compiled with: only durations change.
// What else a better machine room would make possible is for the search to find.
struct WhatIfSection {
  WhatIfRow now;
  std::vector<WhatIfRow> rows;  // a change each; several changes once more, together
};

// Simulates the plan under each change of `setup`, and without. Throws what changes of a cluster
// and simulations throw.
WhatIfSection what_if_section(const PlannedJob& planned, const CompiledPlan& plan,
                              const SimulationSetup& setup);
// As a table, and as part of the verb's document (seconds).
void say(const WhatIfSection& section, const Console& console);
nlohmann::ordered_json what_if_json(const WhatIfSection& section);

// A value each, in the order of the sweep.
struct SweepSection {
  std::string text;
  double now_s = 0;
  std::vector<WhatIf> changes;
  std::vector<WhatIfRow> rows;
};

// Simulates the plan under each value that `sweep` names, which `setup` has as changes.
SweepSection sweep_section(const PlannedJob& planned, const CompiledPlan& plan,
                           const SimulationSetup& setup, const std::string& sweep);
// As a table, and as part of the verb's document (seconds).
void say(const SweepSection& section, const Console& console);
nlohmann::ordered_json sweep_json(const SweepSection& section);
// Step time and its parts over the values, as SVG.
std::string sweep_chart(const SweepSection& section);

}  // namespace sextant
