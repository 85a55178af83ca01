// What a plan is that nobody asked about: devices without work, groups across nodes, settings that
// change nothing, assumptions about the model.
#pragma once

#include "cli/workflow.h"
#include "compiler/strategy/rank_use.h"

#include <nlohmann/json_fwd.hpp>

#include <string>
#include <vector>

namespace sextant {

// Whatever is done with the plan: idle devices and assumptions, one line each.
std::vector<std::string> plan_notes(const PlannedJob& planned, const RankUse& use);
// For whoever checks it: these, settings without effect and axes that cross nodes.
std::vector<std::string> check_notes(const PlannedJob& planned, const RankUse& use);

// The groups of each axis and how many of them cross nodes, a list.
nlohmann::ordered_json axes_json(const RankUse& use);

}  // namespace sextant
