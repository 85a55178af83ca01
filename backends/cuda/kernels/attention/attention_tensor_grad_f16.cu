// The gradient of attention on tensor cores in f16.
#include "backends/cuda/kernels/attention/attention_tensor_grad.cuh"

namespace sextant {

cudaError_t enqueue_attention_grad_f16(const AttentionGradArguments& a, cudaStream_t stream) {
  const cudaError_t status = enqueue_attention_delta(a, stream);
  return status != cudaSuccess ? status : start_attention_grad<__half>(a, stream);
}

}  // namespace sextant
