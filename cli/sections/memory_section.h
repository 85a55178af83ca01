// The memory part of `simulate --memory`: by stage and class, over the step, the largest owners.
#pragma once

#include "cli/console.h"
#include "compiler/expand/expand.h"
#include "compiler/memory/memory_report.h"
#include "simulator/steps/timeline.h"

#include <nlohmann/json_fwd.hpp>

#include <cstddef>
#include <vector>

namespace sextant {

struct MemorySection {
  std::vector<ProgramMemory> programs;  // in the times of the simulation
  std::vector<PackingRule> rules;       // by program
};

inline constexpr std::size_t kMemoryWindows = 48;  // of the chart and the document

// What the arenas of each program hold over a step of `timeline`, which has every class of ranks;
// `windows`: into how many the step is cut.
MemorySection memory_section(const ExpandedGraph& expanded, const Timeline& timeline,
                             std::size_t windows = kMemoryWindows);
// As a chart for people, and as part of the verb's document (bytes).
void say(const MemorySection& section, const Console& console);
nlohmann::ordered_json memory_section_json(const MemorySection& section);

}  // namespace sextant
