// A classifier split by classes: figures 11 and 12 of arXiv 2110.15032.
#pragma once

#include "experiments/sweeps/experiment.h"

namespace sextant::class_split {

Experiment experiment();

}  // namespace sextant::class_split
