// Grids of kernels that walk over all of their work: as many blocks as run at once. A few more
// would wait for the first to end and then run alone.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>

namespace sextant {

// At most `wanted`, which is at least 1.
template <typename... Parameters>
cudaError_t blocks_at_once(void (*kernel)(Parameters...), int threads, std::int64_t wanted,
                           unsigned& blocks) {
  int device = 0, multiprocessors = 0, resident = 0;
  cudaError_t status = cudaGetDevice(&device);
  if (status == cudaSuccess)
    status = cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device);
  if (status == cudaSuccess)
    status = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, kernel, threads, 0);
  const std::int64_t most = std::max<std::int64_t>(1, std::int64_t{multiprocessors} * resident);
  blocks = static_cast<unsigned>(std::min(wanted, most));
  return status;
}

}  // namespace sextant
