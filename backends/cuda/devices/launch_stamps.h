// How long the launches of one rank took, by events between its kernels.
#pragma once

#include "actor/protocol/device.h"
#include "backends/cuda/cuda_program.h"
#include "backends/cuda/devices/launch_fences.h"
#include "core/base/units.h"

#include <cuda_runtime_api.h>

#include <cstddef>
#include <span>
#include <vector>

namespace sextant {

// For the thread that launches, on the card that is current when it is made.
class LaunchStamps {
 public:
  // Borrows the program. Times count from here.
  explicit LaunchStamps(const CudaProgram& program);
  ~LaunchStamps();
  LaunchStamps(const LaunchStamps&) = delete;
  LaunchStamps& operator=(const LaunchStamps&) = delete;

  // All that is on `stream` so far lies before mark `index` of the launch: 0 before its first
  // kernel, then behind each. Its events are made where it has none.
  static void mark(LaunchFences::Entry& launch, std::size_t index, cudaStream_t stream);
  // The launch is over: a stamp for each of its kernels, or for its communications; nothing of an
  // entry without a run.
  void note(const LaunchFences::Entry& launch);
  std::span<const Stamp> all() const { return stamps_; }

 private:
  Duration since_epoch(cudaEvent_t event) const;

  const CudaProgram& program_;
  cudaEvent_t epoch_ = nullptr;
  std::vector<Stamp> stamps_;
};

}  // namespace sextant
