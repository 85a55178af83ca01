// Library handles and scratch memory of one device.
#pragma once

#include "backends/cuda/cuda_check.h"

#include <cstddef>

namespace sextant {

class CudaLibraries {
 public:
  CudaLibraries() {
    SEXTANT_CUBLAS(cublasLtCreate(&cublas_));
    SEXTANT_CUDA(cudaMalloc(&workspace_, kWorkspaceBytes));
  }
  ~CudaLibraries() {
    cudaFree(workspace_);
    cublasLtDestroy(cublas_);
  }
  CudaLibraries(const CudaLibraries&) = delete;
  CudaLibraries& operator=(const CudaLibraries&) = delete;

  cublasLtHandle_t cublas() const { return cublas_; }
  // Of the compute queue: its launches are in order, so they may share it.
  void* workspace() const { return workspace_; }

  // NVIDIA's recommendation for Hopper (cuBLAS documentation, cublasSetWorkspace).
  static constexpr std::size_t kWorkspaceBytes = std::size_t{32} << 20;

 private:
  cublasLtHandle_t cublas_ = nullptr;
  void* workspace_ = nullptr;
};

}  // namespace sextant
