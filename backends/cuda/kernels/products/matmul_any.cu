// One thread per element of the result, a grid-stride loop of 256 threads a block. Right for every
// size, fast for none: cuBLASLt serves what matters.
#include "backends/cuda/kernels/products/matmul_any.h"
#include "backends/cuda/kernels/shared/elements.cuh"
#include "backends/cuda/kernels/shared/grid.h"

namespace sextant {
namespace {

constexpr int kThreads = 256;

// f64 if anything is.
template <typename In, typename Out>
using Sum =
    std::conditional_t<std::is_same_v<In, double> || std::is_same_v<Out, double>, double, float>;

template <typename In, typename Out>
__global__ void matmul_any(MatmulAnyArguments a) {
  const std::int64_t stride = std::int64_t{gridDim.x} * blockDim.x;
  const std::int64_t elements = a.count * a.m * a.n;
  auto* y = static_cast<Out*>(a.y);
  for (std::int64_t at = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; at < elements;
       at += stride) {
    const std::int64_t batch = at / (a.m * a.n), row = at / a.n % a.m, column = at % a.n;
    const In* x =
        static_cast<const In*>(a.x.data) + batch * a.x.batch_stride + row * a.x.outer_stride;
    const In* w =
        static_cast<const In*>(a.w.data) + batch * a.w.batch_stride + column * a.w.outer_stride;
    Sum<In, Out> sum = 0;
    for (std::int64_t l = 0; l < a.k; ++l)
      sum += static_cast<Sum<In, Out>>(widen(x[l * a.x.inner_stride])) *
             static_cast<Sum<In, Out>>(widen(w[l * a.w.inner_stride]));
    if (a.accumulate) sum += static_cast<Sum<In, Out>>(widen(y[at]));
    y[at] = narrow<Out>(sum);
  }
}

template <typename From, typename To>
__global__ void add_into(const From* from, To* to, std::int64_t elements) {
  const std::int64_t stride = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < elements;
       i += stride)
    to[i] = narrow<To>(static_cast<Sum<From, To>>(widen(to[i])) +
                       static_cast<Sum<From, To>>(widen(from[i])));
}

}  // namespace

cudaError_t enqueue_matmul_any(const MatmulAnyArguments& arguments, cudaStream_t stream) {
  const std::int64_t elements = arguments.count * arguments.m * arguments.n;
  if (elements == 0) return cudaSuccess;
  if (arguments.x.dtype != arguments.w.dtype) return cudaErrorInvalidValue;
  return with_floating_type(arguments.x.dtype, [&]<typename In>() {
    return with_floating_type(arguments.y_dtype, [&]<typename Out>() {
      matmul_any<In, Out><<<blocks_for(elements, kThreads), kThreads, 0, stream>>>(arguments);
      return cudaGetLastError();
    });
  });
}

cudaError_t enqueue_add_into(const AddIntoArguments& arguments, cudaStream_t stream) {
  if (arguments.elements == 0) return cudaSuccess;
  return with_floating_type(arguments.from_dtype, [&]<typename From>() {
    return with_floating_type(arguments.to_dtype, [&]<typename To>() {
      add_into<From, To><<<blocks_for(arguments.elements, kThreads), kThreads, 0, stream>>>(
          static_cast<const From*>(arguments.from), static_cast<To*>(arguments.to),
          arguments.elements);
      return cudaGetLastError();
    });
  });
}

}  // namespace sextant
