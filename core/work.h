// What an act costs, said without a device: the only input of a cost model.
#pragma once

#include "core/units.h"

#include <string>

namespace sextant {

struct Work {
  Flops flops = 0;  // multiply-add = 2
  Bytes read;       // device memory traffic of one act
  Bytes written;
  // Names the efficiency curve: "matmul", "attention", "elementwise", ...; matmul-like kernels add
  // their local extents, "matmul:4096x1024x512" (m, n, k). "none" starts no kernel.
  std::string kernel;
  bool operator==(const Work&) const = default;
};

}  // namespace sextant
