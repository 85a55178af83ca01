// The number of the step in device memory.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace sextant {

cudaError_t enqueue_step_number(std::int64_t* number, std::int64_t step, cudaStream_t stream);

}  // namespace sextant
