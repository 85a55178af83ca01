// What the compiler and the simulator say of an observed run.
#pragma once

#include "core/units.h"
#include "experiments/accuracy/observation.h"
#include "simulator/simulate.h"

namespace sextant {

struct Prediction {
  double step_s = 0;
  StepParts parts;
  Bytes arena;         // of the worst device
  Bytes library;       // beside it, in what the program's allocator counts (software.h)
  double naive_s = 0;  // 6 x parameters x tokens at half of the peak

  Bytes memory() const { return arena + library; }
};

// Throws what the compiler throws for a plan that it cannot honour.
Prediction predict(const Observation& observation);

}  // namespace sextant
