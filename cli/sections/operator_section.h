// `simulate --operators`: where the time goes, operator by operator.
#pragma once

#include "cli/console.h"
#include "core/base/units.h"
#include "simulator/reports/operator_use.h"

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <vector>

namespace sextant {

struct OperatorSection {
  std::vector<OperatorUse> uses;
  std::int64_t ranks = 1;  // they are sums over
  Duration step_time;
};

// As a table, the longest first, and as part of the verb's document (seconds per rank).
void say(const OperatorSection& section, const Console& console);
nlohmann::ordered_json operators_json(const OperatorSection& section);

}  // namespace sextant
