// `simulate --critical-path`: what bounds the step.
#pragma once

#include "cli/console.h"
#include "simulator/reports/step_path.h"

#include <nlohmann/json_fwd.hpp>

namespace sextant {

// What the step waits for, from its end backwards, as a table and as part of the verb's document
// (seconds).
void say(const StepPath& path, const Console& console);
nlohmann::ordered_json path_json(const StepPath& path);

}  // namespace sextant
