// All experiments by name.
#pragma once

#include "experiments/sweeps/experiment.h"

#include <vector>

namespace sextant {

// In the order in which they are listed.
std::vector<Experiment> all_experiments();

}  // namespace sextant
