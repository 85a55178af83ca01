// What boxing moves between every two words: table 2 of arXiv 2110.15032.
#pragma once

#include "experiments/sweeps/experiment.h"

namespace sextant::boxing_volumes {

Experiment experiment();

}  // namespace sextant::boxing_volumes
