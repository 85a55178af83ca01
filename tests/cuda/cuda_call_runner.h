// Runs single calls, whose operands lie on the host, through the CUDA kernel table.
#pragma once

#include "backends/cuda/cuda_backend.h"
#include "backends/cuda/cuda_kernel.h"
#include "tests/conformance/operators/kernel_conformance.h"

#include <cuda_runtime_api.h>

#include <cstddef>
#include <memory>
#include <string>

namespace sextant {

class CudaContext;

// Operands and the guards behind them go to the device and come back; the workspace is poisoned, so
// that what reads it before it writes shows.
class CudaCallRunner final : public CallRunner {
 public:
  explicit CudaCallRunner(const CudaOptions& options);
  ~CudaCallRunner() override;
  CudaCallRunner(const CudaCallRunner&) = delete;
  CudaCallRunner& operator=(const CudaCallRunner&) = delete;

  bool run(const KernelContext& call) override;
  // Errors that contain a line of stated_limits.
  bool may_refuse(const std::string& error) override;

 private:
  void renew_context();
  std::size_t place(KernelContext& call, bool to_device);
  void execute(const KernelContext& call);

  CudaOptions options_;
  CudaKernelTable kernels_;
  std::unique_ptr<CudaContext> context_;
  int calls_of_context_ = 0;
  std::byte* device_ = nullptr;
  std::byte* host_ = nullptr;  // pinned
  cudaStream_t stream_ = nullptr;
};

}  // namespace sextant
