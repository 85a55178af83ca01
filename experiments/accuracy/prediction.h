// What the compiler and the simulator say of an observed run.
#pragma once

#include "core/base/units.h"
#include "experiments/accuracy/observation.h"
#include "simulator/costs/library_memory.h"
#include "simulator/modes/simulate.h"

#include <map>
#include <string>
#include <vector>

namespace sextant {

struct Prediction {
  double step_s = 0;
  StepParts parts;
  std::map<std::string, double> kernels_s;  // by kind (kernel_seconds.h)
  double added_s = 0;  // to the step, by copies beside collectives and updates that the host delays
  Bytes arena;         // of the worst device
  // What the program counts beside it (software.h); less than nothing where it needs less than we.
  std::vector<LibraryUse> library;
  double naive_s = 0;  // 6 x parameters x tokens at half of the peak

  Bytes memory() const { return arena + total(library); }
};

// Throws what the compiler throws for a plan that it cannot honour.
Prediction predict(const Observation& observation);

}  // namespace sextant
