// Attention on tensor cores in bf16.
#include "backends/cuda/kernels/attention/attention_tensor.cuh"

namespace sextant {

cudaError_t enqueue_attention_bf16(const AttentionArguments& a, cudaStream_t stream) {
  return start_attention<__nv_bfloat16>(a, stream);
}

}  // namespace sextant
