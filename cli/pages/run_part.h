// What a run measured, beside what its plan predicts.
#pragma once

#include "cli/pages/page_part.h"
#include "cli/pages/run_view.h"

namespace sextant {

// Step, error, how the run ended.
Markup run_head(const RunView& run);
// Loss and step time by step.
PagePart training_part(const RunView& run);
// Operators and kinds, predicted beside measured.
PagePart comparison_part(const RunView& run);

}  // namespace sextant
