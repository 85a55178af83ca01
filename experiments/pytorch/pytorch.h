// Steps on GPUs beside PyTorch's on the same cards, measured by the script of the source tree that
// has both sides: tools/gpu_bench.sh.
#pragma once

#include "experiments/sweeps/experiment.h"

#include <string>

namespace sextant::pytorch {

struct Bench {
  std::string script = "tools/gpu_bench.sh";
  std::string peer = {};   // a PyTorch program for rows of GPT-2; empty: those are ours alone
  std::string build = {};  // folder with a CUDA build, under the tree; empty: the script's own
  std::string logs = {};   // where it leaves its logs; empty: a folder that goes away
};

// A point per row of the script, which is asked for them. Throws Error(kBadInput) where there is no
// such script or it lists nothing.
Experiment experiment(const Bench& bench);

}  // namespace sextant::pytorch
