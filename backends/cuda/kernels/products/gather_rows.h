// Short rows brought behind each other.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace sextant {

// Row i, of `bytes` bytes, goes from rows[i] to `to` + i * stride.
struct GatherRowsArguments {
  const void* const* rows = nullptr;  // on the device, as what they point to
  void* to = nullptr;
  std::int64_t count = 0, bytes = 0, stride = 0;
  bool is_aligned = false;  // rows, `to`, `bytes` and `stride` are multiples of 16
};
cudaError_t enqueue_gather_rows(const GatherRowsArguments& arguments, cudaStream_t stream);

}  // namespace sextant
