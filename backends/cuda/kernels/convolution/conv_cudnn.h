// Convolutions through cuDNN.
#pragma once

#include "backends/cuda/cuda_kernel.h"
#include "backends/cuda/kernels/convolution/windows.h"

#include <memory>

namespace sextant {

class CudaContext;

// Whole windows over up to three spatial dims in f32, bf16 and f16. Nothing elsewhere, where the
// build has no cuDNN, and where cuDNN has no plan.
std::unique_ptr<CudaKernel> make_cudnn_conv(const CudaConv& conv, CudaConvMade made,
                                            CudaContext& device);

}  // namespace sextant
