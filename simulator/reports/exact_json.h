// Values of a prediction as JSON that gives them back to the bit. No format of files: for processes
// of one build.
#pragma once

#include "simulator/costs/library_memory.h"
#include "simulator/modes/simulate.h"

#include <nlohmann/json_fwd.hpp>

#include <vector>

namespace sextant {

nlohmann::ordered_json exact_json(const StepParts& parts);
StepParts step_parts_from(const nlohmann::ordered_json& json);

nlohmann::ordered_json exact_json(const std::vector<LibraryUse>& libraries);
std::vector<LibraryUse> libraries_from(const nlohmann::ordered_json& json);

}  // namespace sextant
