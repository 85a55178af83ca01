// Element-wise functions of any type and any strides: one thread an element, 256 a block. What is
// common in training goes 16 bytes at a time instead.
#include "backends/cuda/kernels/pointwise/elementwise.h"
#include "backends/cuda/kernels/pointwise/elementwise_functions.cuh"
#include "backends/cuda/kernels/pointwise/packs.cuh"

namespace sextant {
namespace {

constexpr int kThreads = 256;

// Calls `use.template operator()<function>()` for the function that has the number `wanted`.
template <typename Use, int... kAll>
__device__ __forceinline__ void with_function(Function wanted, const Use& use,
                                              std::integer_sequence<int, kAll...>) {
  (void)((static_cast<int>(wanted) == kAll
              ? (use.template operator()<static_cast<Function>(kAll)>(), true)
              : false) ||
         ...);
}
template <typename Use>
__device__ __forceinline__ void with_function(Function wanted, const Use& use) {
  with_function(wanted, use, std::make_integer_sequence<int, kNumFunctions>());
}

template <typename T>
__global__ void __launch_bounds__(kThreads)
    pass_over_elements(Function wanted, const PackOperands x, const Strides strides,
                       const Parameters<Wide<T>> parameters) {
  const std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i >= x.elements) return;
  std::int64_t at[3];
  locate(strides, x.elements, i, at);
  with_function(wanted, [&]<Function f>() {
    if constexpr (takes<T>(f)) {
      using W = Wide<T>;
      W in[3] = {};
      load_run<InputOf<f, T, 0>, 1>(x.in[0], at[0], &in[0]);
      if constexpr (num_inputs(f) > 1) load_run<T, 1>(x.in[1], at[1], &in[1]);
      if constexpr (num_inputs(f) > 2) load_run<T, 1>(x.in[2], at[2], &in[2]);
      const W value = value_of<f, false>(in[0], in[1], in[2], parameters);
      store_run<OutputOf<f, T>, 1>(x.out[0], i, x.accumulate[0], &value);
    }
  });
}

template <typename T>
cudaError_t enqueue_elements(const FunctionArguments& arguments, cudaStream_t stream) {
  PackOperands x;
  for (int k = 0; k < 3; ++k) x.in[k] = arguments.in[k];
  x.out[0] = arguments.out;
  x.accumulate[0] = arguments.accumulate;
  x.elements = arguments.elements;
  const auto blocks = static_cast<unsigned>((x.elements + kThreads - 1) / kThreads);
  pass_over_elements<T><<<blocks, kThreads, 0, stream>>>(arguments.function, x, arguments.strides,
                                                         parameters_of<Wide<T>>(arguments));
  return cudaGetLastError();
}

}  // namespace

cudaError_t enqueue_function(const FunctionArguments& arguments, cudaStream_t stream) {
  if (arguments.elements == 0) return cudaSuccess;
  const bool by_packs = arguments.is_one_run || arguments.falls_into_packs;
  switch (arguments.dtype) {
    case DType::kF64:
      return enqueue_elements<double>(arguments, stream);
    case DType::kF32:
      return by_packs ? enqueue_f32_packs(arguments, stream)
                      : enqueue_elements<float>(arguments, stream);
    case DType::kBF16:
      return by_packs ? enqueue_bf16_packs(arguments, stream)
                      : enqueue_elements<__nv_bfloat16>(arguments, stream);
    case DType::kF16:
      return by_packs ? enqueue_f16_packs(arguments, stream)
                      : enqueue_elements<__half>(arguments, stream);
    case DType::kI64:
      return enqueue_elements<std::int64_t>(arguments, stream);
    case DType::kI32:
      return enqueue_elements<std::int32_t>(arguments, stream);
    case DType::kBool:
      return enqueue_elements<Flag>(arguments, stream);
    case DType::kE4M3:
    case DType::kE5M2:
    case DType::kU8:
      break;  // nothing is computed in 8 bits
  }
  return cudaErrorInvalidValue;
}

}  // namespace sextant
