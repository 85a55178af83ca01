// Where every number of a plan's page comes from: files by hash, figures of the cluster by source.
#pragma once

#include "cli/pages/page_part.h"
#include "cli/pages/plan_view.h"

namespace sextant {

PagePart provenance_part(const PlanView& plan);

}  // namespace sextant
