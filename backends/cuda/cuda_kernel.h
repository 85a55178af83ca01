// What a CUDA kernel family gets, and the families. A call is made ready once, in prepare, and
// enqueued once per act.
#pragma once

#include "core/physical_graph.h"

#include <cuda_runtime_api.h>

#include <memory>
#include <string_view>
#include <vector>

namespace sextant {

struct CudaOperand {
  void* data = nullptr;  // device address
  TensorType local;
};

struct CudaCall {
  const Actor* actor = nullptr;
  std::vector<CudaOperand> in, out;
  std::vector<bool> accumulate;  // per output
};

// One act at fixed addresses.
class CudaKernel {
 public:
  virtual ~CudaKernel() = default;
  // Enqueues; throws Error(kDevice) if the launch itself fails.
  virtual void enqueue(cudaStream_t stream) = 0;
};

// What kernels of one device share: handles and scratch memory.
class CudaLibraries;

// Each returns nothing when the call is not of its family, and throws Error(kDevice) naming what it
// does not cover (dtype, accumulation).
std::unique_ptr<CudaKernel> make_matmul(const CudaCall& call, CudaLibraries& libraries);
std::unique_ptr<CudaKernel> make_elementwise(const CudaCall& call);
std::unique_ptr<CudaKernel> make_optimizer(const CudaCall& call, CudaLibraries& libraries);

}  // namespace sextant
