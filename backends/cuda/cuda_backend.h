// Devices on CUDA GPUs, without CUDA headers: what the rest of the project sees.
#pragma once

#include "actor/device.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace sextant {

struct CudaOptions {
  int device = 0;          // CUDA ordinal
  std::uint64_t seed = 0;  // of weights
  bool profile = false;    // event pairs around every launch; changes timing
  // The same bits in every run: no atomics in floating point, fixed algorithms.
  bool deterministic = false;
  // Algorithms of matrix products and plans of attention are measured when a program is prepared,
  // on memory that is given back, and not left to the heuristics of their libraries; never with
  // `deterministic`. Seconds per program.
  bool tune_matmuls = false;
  // File that keeps what was measured, for later runs on a card of this kind; empty: none.
  std::string matmul_cache;
  // Where the device says what it did otherwise than asked, in one line.
  std::function<void(const std::string&)> notice;
  // From the third step on, a step is one CUDA graph; the numbers are those of single launches.
  bool graphs = true;
  // The whole arena lies in mapped host memory, so that tests and debuggers read any register;
  // slow.
  bool host_visible = false;
};

// GPUs that can be used; 0 without a driver.
int num_cuda_devices();
// Why there are none; empty when there are.
std::string why_no_cuda_device();
std::string cuda_device_name(int device);

// Throws Error(kDevice) saying why the device cannot be used. Its `prepare` throws
// Error(kInfeasible) before it allocates when the program needs more memory than is free.
std::unique_ptr<Device> make_cuda_device(const CudaOptions& options);

}  // namespace sextant
