// An experiment on a page: what it asks, what holds, its rows, and its pictures.
#pragma once

#include "cli/pages/experiment_view.h"
#include "cli/pages/page_part.h"

#include <vector>

namespace sextant {

// Question, numbers of points, and what holds.
Markup experiment_head(const ExperimentView& experiment);
// Rows of each way apart, values beside what others published, errors, pictures, provenance.
std::vector<PagePart> experiment_parts(const ExperimentView& experiment);

}  // namespace sextant
