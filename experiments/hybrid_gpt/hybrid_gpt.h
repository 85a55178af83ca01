// GPT under data, tensor and pipeline parallelism: figure 16 of arXiv 2110.15032.
#pragma once

#include "experiments/sweeps/experiment.h"

namespace sextant::hybrid_gpt {

Experiment experiment();

}  // namespace sextant::hybrid_gpt
