// One thread per element of the result, a grid-stride loop of 256 threads a block. Right for every
// size, fast for none.
#include "backends/cuda/kernels/products/scaled_any.h"
#include "backends/cuda/kernels/shared/eight_bits.cuh"
#include "backends/cuda/kernels/shared/grid.h"
#include "backends/cuda/kernels/shared/put.cuh"

namespace sextant {
namespace {

constexpr int kThreads = 256;

template <typename Out>
__global__ void scaled_any(ScaledAnyArguments p) {
  using Sum = Wide<Out>;
  const std::int64_t stride = std::int64_t{gridDim.x} * blockDim.x;
  const auto* const a = static_cast<const std::uint8_t*>(p.a);
  const auto* const b = static_cast<const std::uint8_t*>(p.b);
  const Sum scale = static_cast<Sum>(p.a_scale[0]) * static_cast<Sum>(p.b_scale[0]);
  for (std::int64_t at = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; at < p.m * p.n;
       at += stride) {
    const std::uint8_t* const row = a + at / p.n * p.k;
    const std::uint8_t* const column = b + at % p.n * p.k;
    Sum sum = 0;
    for (std::int64_t l = 0; l < p.k; ++l)
      sum += static_cast<Sum>(from_8_bits(p.a_dtype, row[l]) * from_8_bits(p.b_dtype, column[l]));
    put(static_cast<Out*>(p.y) + at, p.accumulate, scale * sum);
  }
}

}  // namespace

cudaError_t enqueue_scaled_any(const ScaledAnyArguments& arguments, cudaStream_t stream) {
  const std::int64_t elements = arguments.m * arguments.n;
  if (elements == 0) return cudaSuccess;
  return with_floating_type(arguments.y_dtype, [&]<typename Out>() {
    scaled_any<Out><<<blocks_for(elements, kThreads), kThreads, 0, stream>>>(arguments);
    return cudaGetLastError();
  });
}

}  // namespace sextant
