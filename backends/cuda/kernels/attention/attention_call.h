// Arguments of attention kernels from the operands of a call, and our own kernels for them.
#pragma once

#include "actor/calls/kernel_context.h"
#include "backends/cuda/cuda_kernel.h"
#include "backends/cuda/kernels/attention/attention.h"

#include <memory>

namespace sextant {

AttentionShape attention_shape(const KernelContext& call);
AttentionArguments attention_arguments(const KernelContext& call);
AttentionGradArguments attention_grad_arguments(const KernelContext& call);  // without delta

// Serve every call of attention, whole or in chunks, and of its gradient.
std::unique_ptr<CudaKernel> make_general_attention(const KernelContext& call, CudaContext& device);
std::unique_ptr<CudaKernel> make_general_attention_grad(const KernelContext& call,
                                                        CudaContext& device);

// Those on tensor cores: bf16 and f16, sizes of heads by eights.
std::unique_ptr<CudaKernel> make_tensor_attention(const KernelContext& call, CudaContext& device);
std::unique_ptr<CudaKernel> make_tensor_attention_grad(const KernelContext& call,
                                                       CudaContext& device);

}  // namespace sextant
