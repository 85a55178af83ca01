// Memory over the step by class, and what is in it at its most.
#pragma once

#include "cli/pages/page_part.h"
#include "cli/pages/plan_view.h"

namespace sextant {

PagePart memory_part(const PlanView& plan);

}  // namespace sextant
