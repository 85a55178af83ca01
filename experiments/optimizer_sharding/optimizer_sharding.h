// Optimizer state that replicas share: figures 14 and 15 of arXiv 2110.15032.
#pragma once

#include "experiments/sweeps/experiment.h"

namespace sextant::optimizer_sharding {

Experiment experiment();

}  // namespace sextant::optimizer_sharding
