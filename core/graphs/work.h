// What an act costs, said without a device: the only input of a cost model.
#pragma once

#include "core/base/units.h"

#include <string>
#include <string_view>

namespace sextant {

// Kernel name of work that starts none.
inline constexpr std::string_view kNoKernel = "none";

struct Work {
  Flops flops = 0;  // multiply-add = 2
  Bytes read;       // device memory traffic of one act
  Bytes written;
  // Names the efficiency curve: "matmul", "attention", "elementwise", ...; matmul-like kernels add
  // their local extents, "matmul:4096x1024x512" (m, n, k). kNoKernel starts none.
  std::string kernel;
  bool operator==(const Work&) const = default;
};

}  // namespace sextant
