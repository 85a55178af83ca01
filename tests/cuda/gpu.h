// Whether the cases that need a GPU run: TEST_CASE("..." * doctest::skip(!has_gpu())), so that they
// are counted as skipped elsewhere.
#pragma once

#include "backends/cuda/cuda_backend.h"

namespace sextant {

inline bool has_gpu() { return num_cuda_devices() > 0; }
inline bool has_gpus(int count) { return num_cuda_devices() >= count; }

}  // namespace sextant
