// Element-wise kernels: grid-stride over elements, 256 threads a block.
#include "backends/cuda/kernels/elementwise.h"

namespace sextant {
namespace {

constexpr int kThreads = 256;
constexpr std::int64_t kMaxBlocks = 2048;

template <ElementwiseOp op>
__device__ float apply(float a, float b, float factor) {
  if constexpr (op == ElementwiseOp::kAdd) return a + b;
  if constexpr (op == ElementwiseOp::kMul) return a * b;
  if constexpr (op == ElementwiseOp::kScale) return factor * a;
  if constexpr (op == ElementwiseOp::kGelu) return 0.5f * a * (1.0f + erff(a * 0.70710678f));
  if constexpr (op == ElementwiseOp::kGeluTanh)
    return 0.5f * a * (1.0f + tanhf(0.79788456f * (a + 0.044715f * a * a * a)));
  if constexpr (op == ElementwiseOp::kSilu) return a / (1.0f + expf(-a));
}

template <ElementwiseOp op>
__global__ void elementwise(const float* a, const float* b, float* out, float factor,
                            bool accumulate, std::int64_t elements) {
  constexpr bool kBinary = op == ElementwiseOp::kAdd || op == ElementwiseOp::kMul;
  const std::int64_t stride = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < elements;
       i += stride) {
    const float value = apply<op>(a[i], kBinary ? b[i] : 0.0f, factor);
    out[i] = accumulate ? out[i] + value : value;
  }
}

template <ElementwiseOp op>
void start(const ElementwiseArguments& x, unsigned blocks, cudaStream_t stream) {
  elementwise<op>
      <<<blocks, kThreads, 0, stream>>>(x.a, x.b, x.out, x.factor, x.accumulate, x.elements);
}

}  // namespace

cudaError_t enqueue_elementwise(const ElementwiseArguments& arguments, cudaStream_t stream) {
  if (arguments.elements == 0) return cudaSuccess;
  const std::int64_t wanted = (arguments.elements + kThreads - 1) / kThreads;
  const auto blocks = static_cast<unsigned>(wanted < kMaxBlocks ? wanted : kMaxBlocks);
  switch (arguments.op) {
    case ElementwiseOp::kAdd:
      start<ElementwiseOp::kAdd>(arguments, blocks, stream);
      break;
    case ElementwiseOp::kMul:
      start<ElementwiseOp::kMul>(arguments, blocks, stream);
      break;
    case ElementwiseOp::kScale:
      start<ElementwiseOp::kScale>(arguments, blocks, stream);
      break;
    case ElementwiseOp::kGelu:
      start<ElementwiseOp::kGelu>(arguments, blocks, stream);
      break;
    case ElementwiseOp::kGeluTanh:
      start<ElementwiseOp::kGeluTanh>(arguments, blocks, stream);
      break;
    case ElementwiseOp::kSilu:
      start<ElementwiseOp::kSilu>(arguments, blocks, stream);
      break;
  }
  return cudaGetLastError();
}

}  // namespace sextant
