// Embedding tables that outgrow one device: figure 13 of arXiv 2110.15032.
#pragma once

#include "experiments/sweeps/experiment.h"

namespace sextant::wide_deep {

Experiment experiment();

}  // namespace sextant::wide_deep
