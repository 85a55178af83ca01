// What the host side of kernel families is made of: a kernel that is its arguments, and typed views
// of operands.
#pragma once

#include "backends/cuda/cuda_check.h"
#include "backends/cuda/cuda_kernel.h"

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace sextant {

// Calls `enqueue` of a .cu file with each of the arguments.
template <typename Arguments>
class CudaLaunch final : public CudaKernel {
 public:
  using Enqueue = cudaError_t (*)(const Arguments&, cudaStream_t);
  CudaLaunch(Enqueue enqueue, std::vector<Arguments> all)
      : enqueue_(enqueue), all_(std::move(all)) {}
  void enqueue(cudaStream_t stream) override {
    for (const Arguments& arguments : all_) SEXTANT_CUDA(enqueue_(arguments, stream));
  }

 private:
  Enqueue enqueue_;
  std::vector<Arguments> all_;
};

template <typename Arguments>
std::unique_ptr<CudaKernel> cuda_launch(cudaError_t (*enqueue)(const Arguments&, cudaStream_t),
                                        std::vector<Arguments> all) {
  return std::make_unique<CudaLaunch<Arguments>>(enqueue, std::move(all));
}

template <typename Arguments>
std::unique_ptr<CudaKernel> cuda_launch(cudaError_t (*enqueue)(const Arguments&, cudaStream_t),
                                        const Arguments& arguments) {
  return cuda_launch(enqueue, std::vector<Arguments>{arguments});
}

// Whether packs of 16 bytes (elements.cuh) can be read and written at the operand's address.
inline bool has_aligned_data(const KernelOperand& operand) {
  return reinterpret_cast<std::uintptr_t>(operand.data) % 16 == 0;
}

template <typename T>
T* data_of(const KernelOperand& operand) {
  return reinterpret_cast<T*>(operand.data);
}

}  // namespace sextant
