// Element-wise functions of f32 tensors, 16 bytes at a time (packs.cuh says how).
#include "backends/cuda/kernels/pointwise/elementwise_packs.cuh"

namespace sextant {

cudaError_t enqueue_f32_packs(const FunctionArguments& arguments, cudaStream_t stream) {
  return enqueue_packs<float>(arguments, stream);
}

}  // namespace sextant
