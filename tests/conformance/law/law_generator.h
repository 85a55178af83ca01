// Draws legal plans: what the strategy grammar of this version accepts and the model has room for.
#pragma once

#include "tests/conformance/law/law_plan.h"

#include <cstdint>
#include <string>

namespace sextant {

// A function of both numbers alone. Only pins of words may make the compiler refuse the plan.
LawPlan draw_plan(std::uint64_t seed, std::uint64_t index);

// False for what this version names but does not have.
bool is_available(const std::string& strategy);

}  // namespace sextant
