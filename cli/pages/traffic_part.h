// What moves between devices in a step, why, and over which links.
#pragma once

#include "cli/pages/page_part.h"
#include "cli/pages/plan_view.h"

namespace sextant {

PagePart boxing_part(const PlanView& plan);
PagePart links_part(const PlanView& plan);

}  // namespace sextant
