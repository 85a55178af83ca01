// Element-wise functions of bf16 tensors, 16 bytes at a time (packs.cuh says how).
#include "backends/cuda/kernels/pointwise/elementwise_packs.cuh"

namespace sextant {

cudaError_t enqueue_bf16_packs(const FunctionArguments& arguments, cudaStream_t stream) {
  return enqueue_packs<__nv_bfloat16>(arguments, stream);
}

}  // namespace sextant
