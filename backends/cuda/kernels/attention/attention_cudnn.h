// Attention through cuDNN. Without cuDNN in the build nothing is covered.
#pragma once

#include "actor/calls/kernel_context.h"
#include "backends/cuda/cuda_kernel.h"

#include <memory>

namespace sextant {

#ifdef SEXTANT_HAS_CUDNN
std::unique_ptr<CudaKernel> make_cudnn_attention(const KernelContext& call, CudaContext& device);
std::unique_ptr<CudaKernel> make_cudnn_attention_grad(const KernelContext& call,
                                                      CudaContext& device);
#else
inline std::unique_ptr<CudaKernel> make_cudnn_attention(const KernelContext&, CudaContext&) {
  return nullptr;
}
inline std::unique_ptr<CudaKernel> make_cudnn_attention_grad(const KernelContext&, CudaContext&) {
  return nullptr;
}
#endif

}  // namespace sextant
