// Attention on tensor cores in f16.
#include "backends/cuda/kernels/attention/attention_tensor.cuh"

namespace sextant {

cudaError_t enqueue_attention_f16(const AttentionArguments& a, cudaStream_t stream) {
  return start_attention<__half>(a, stream);
}

}  // namespace sextant
