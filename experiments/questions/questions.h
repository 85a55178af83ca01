// The question that every planner is asked, of three models: which plan, and how long is its step?
#pragma once

#include "experiments/sweeps/experiment.h"

namespace sextant::questions {

Experiment experiment();

}  // namespace sextant::questions
