// Where a step goes: its parts, its operators, and what each class of ranks does when.
#pragma once

#include "cli/pages/page_part.h"
#include "cli/pages/plan_view.h"

namespace sextant {

PagePart step_part(const PlanView& plan);
PagePart timeline_part(const PlanView& plan);

}  // namespace sextant
