// What one block of a launch over many tensors works on.
#pragma once

#include <cstdint>

namespace sextant {

// Elements [first, first + a chunk's length) of a row of a table of tensors.
struct CudaChunk {
  std::int64_t first = 0;
  std::int32_t row = 0;
};

}  // namespace sextant
