// What each part of the compiler gives.
#pragma once

#include "experiments/sweeps/experiment.h"

namespace sextant::ablations {

Experiment experiment();

}  // namespace sextant::ablations
