// Measures a GPU: what it can do at best, and how long single kernels take. Without CUDA headers.
#pragma once

#include "actor/kernel_context.h"
#include "backends/cuda/cuda_backend.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace sextant {

struct CudaCard {
  std::string name, driver, runtime;
  Bytes memory;
  int multiprocessors = 0;
  double clock_hz = 0;  // of the multiprocessors, at most
};

struct CudaTiming {
  double median_s = 0, low_quartile_s = 0, high_quartile_s = 0;
  int runs = 0;
};

// Operands lie in memory of this class: inputs hold normal numbers, or ids below a limit. Caches
// hold nothing of them when a kernel begins: between two runs memory larger than the second-level
// cache is read.
class CudaBench {
 public:
  explicit CudaBench(const CudaOptions& options);
  ~CudaBench();
  CudaBench(const CudaBench&) = delete;
  CudaBench& operator=(const CudaBench&) = delete;

  CudaCard card() const;

  // Bytes read and written per second when so many bytes are copied within the device.
  CudaTiming copy(Bytes bytes);
  // The fastest algorithm that cuBLASLt names for a row-major [m, k] x [k, n] product, with what
  // the run before left in the caches.
  CudaTiming matmul(std::int64_t m, std::int64_t n, std::int64_t k, DType dtype);
  // Host time per launch of a kernel that does nothing, and device time between two of them.
  double launch_s();
  double kernel_overhead_s();

  // From now on the device multiplies and reads between the runs of `time` about as much as a
  // training step does, so that its power limit sets the clock. Kernels timed alone meet a higher
  // one than any step has.
  void keep_busy();
  // Values of integer inputs lie in [0, limit).
  void set_id_limit(std::int64_t limit);
  // Whether the device has one kernel for several calls of a kind.
  bool go_together(std::string_view kind) const;
  bool has_kernel(std::string_view kind) const;
  // What one launch of these calls takes; nothing where no kernel covers them or memory is short.
  // Their operands' addresses are ignored.
  std::optional<CudaTiming> time(std::span<const KernelContext> calls, int runs = 20,
                                 bool is_cold = true);

 private:
  struct State;  // keeps CUDA's headers out of this one
  std::unique_ptr<State> state_;
};

}  // namespace sextant
