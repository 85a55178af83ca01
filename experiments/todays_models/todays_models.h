// Plans of today's models on 8 to 16,384 H100.
#pragma once

#include "experiments/sweeps/experiment.h"

namespace sextant::todays_models {

Experiment experiment();

}  // namespace sextant::todays_models
