// Measures a GPU: what it can do at best, and how long single kernels take. Without CUDA headers.
#pragma once

#include "actor/calls/kernel_timer.h"
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

// Operands lie in memory of this class: inputs hold normal numbers, or ids below a limit. Caches
// hold nothing of them when a kernel begins: between two runs memory larger than the second-level
// cache is read, or, while the device is kept busy, multiplied.
class CudaBench final : public KernelTimer {
 public:
  explicit CudaBench(const CudaOptions& options);
  ~CudaBench() override;
  CudaBench(const CudaBench&) = delete;
  CudaBench& operator=(const CudaBench&) = delete;

  // What the driver says of the card.
  CudaCard card() const;

  // Bytes read and written per second when so many bytes are copied within the device.
  KernelTiming copy(Bytes bytes);
  // The fastest algorithm that cuBLASLt names for a row-major [m, k] x [k, n] product, with what
  // the run before left in the caches.
  KernelTiming matmul(std::int64_t m, std::int64_t n, std::int64_t k, DType dtype);
  // Host time per launch of a kernel that does nothing, and device time between two of them.
  double launch_s();
  double kernel_overhead_s();

  // From now on the device multiplies and reads between the runs of `time` about as much as a
  // training step does, so that its power limit sets the clock. Kernels timed alone meet a higher
  // one than any step has.
  void keep_busy();
  void set_id_limit(std::int64_t limit) override;
  bool go_together(std::string_view kind) const override;
  bool has_kernel(std::string_view kind) const;
  std::optional<KernelTiming> time(std::span<const KernelContext> calls) override;

 private:
  std::optional<KernelTiming> time(std::span<const KernelContext> calls, bool is_cold);

  struct State;  // keeps CUDA's headers out of this one
  std::unique_ptr<State> state_;
};

}  // namespace sextant
