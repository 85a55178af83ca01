// The number of the step in device memory, and the copies that depend on it. They read it there, so
// that a captured step replays without the host.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace sextant {

// Enqueue what makes `number`, in device memory, that of the step, and one more than it is.
cudaError_t enqueue_step_number(std::int64_t* number, std::int64_t step, cudaStream_t stream);
cudaError_t enqueue_next_step_number(std::int64_t* number, cudaStream_t stream);

// Between a buffer on the device and one of `turns` in mapped host memory, `stride` bytes apart:
// that of step % turns. Both are aligned to 16 bytes.
struct HostCopyArguments {
  const std::int64_t* step = nullptr;
  std::int64_t turns = 1, stride = 0;
  std::byte* host = nullptr;  // of turn 0
  std::byte* device = nullptr;
  std::int64_t bytes = 0;
  bool to_host = false;
};
// Enqueues the copy; the kernel reads the number of the step when it runs.
cudaError_t enqueue_host_copy(const HostCopyArguments& arguments, cudaStream_t stream);

}  // namespace sextant
