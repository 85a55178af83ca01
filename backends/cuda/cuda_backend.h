// Devices on CUDA GPUs, without CUDA headers: what the rest of the project sees.
#pragma once

#include "actor/device.h"

#include <cstdint>
#include <memory>

namespace sextant {

struct CudaOptions {
  int device = 0;          // CUDA ordinal
  std::uint64_t seed = 0;  // of weights
  bool profile = false;    // event pairs around every launch; changes timing
  // The same bits in every run: no atomics in floating point, fixed algorithms.
  bool deterministic = false;
  // The whole arena lies in mapped host memory, so that tests and debuggers read any register;
  // slow.
  bool host_visible = false;
};

// GPUs that can be used; 0 without a driver.
int num_cuda_devices();

// Throws Error(kDevice) saying why the device cannot be used.
std::unique_ptr<Device> make_cuda_device(const CudaOptions& options);

}  // namespace sextant
