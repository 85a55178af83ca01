// Words of a matrix product as the operator's own rules have them: tables 1 and 3 of
// arXiv 2110.15032.
#pragma once

#include "experiments/sweeps/experiment.h"

namespace sextant::signatures {

Experiment experiment();

}  // namespace sextant::signatures
