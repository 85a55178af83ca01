// The head of a plan on a page: what it takes, what it is, and where it lies on the devices.
#pragma once

#include "cli/pages/page_part.h"
#include "cli/pages/plan_view.h"

namespace sextant {

// Step, rate, MFU, memory in large type, with what a reader must know of them.
Markup plan_head(const PlanView& plan);
// Model, cluster, strategy, settings, assumptions.
PagePart plan_part(const PlanView& plan);
// Mesh, stages and nodes as a picture.
PagePart mesh_part(const PlanView& plan);

}  // namespace sextant
