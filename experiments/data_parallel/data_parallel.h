// Scaling of data parallelism: figure 10 of arXiv 2110.15032.
#pragma once

#include "experiments/sweeps/experiment.h"

namespace sextant::data_parallel {

Experiment experiment();

}  // namespace sextant::data_parallel
