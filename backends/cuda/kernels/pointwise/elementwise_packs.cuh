// The packed launches of all functions for one floating type; a .cu file per type includes this.
#pragma once

#include "backends/cuda/kernels/pointwise/elementwise_functions.cuh"
#include "backends/cuda/kernels/pointwise/packs.cuh"

namespace sextant {

template <Function f, typename T>
struct FunctionOf {
  static constexpr int kInputs = num_inputs(f), kResults = 1;
  static constexpr int kSize = 16 / sizeof(T);
  using W = Wide<T>;
  template <int kInput>
  using Input = InputOf<f, T, kInput>;
  template <int kOutput>
  using Output = OutputOf<f, T>;

  __device__ __forceinline__ void of(const W* in, W* results) const {
    constexpr bool kFast = sizeof(T) == 2;
    results[0] = value_of<f, kFast>(in[0], kInputs > 1 ? in[kInputs > 1 ? 1 : 0] : W(0),
                                    kInputs > 2 ? in[kInputs > 2 ? 2 : 0] : W(0), x);
  }

  Parameters<W> x;
};

inline PackOperands operands_of(const FunctionArguments& arguments) {
  PackOperands x;
  for (int k = 0; k < 3; ++k) x.in[k] = arguments.in[k];
  x.out[0] = arguments.out;
  x.accumulate[0] = arguments.accumulate;
  x.elements = arguments.elements;
  return x;
}

// Calls `use.template operator()<function>()` for the function that has the number `wanted`.
template <typename Use, int... kAll>
void with_function(Function wanted, const Use& use, std::integer_sequence<int, kAll...>) {
  (void)((static_cast<int>(wanted) == kAll
              ? (use.template operator()<static_cast<Function>(kAll)>(), true)
              : false) ||
         ...);
}
template <typename Use>
void with_function(Function wanted, const Use& use) {
  with_function(wanted, use, std::make_integer_sequence<int, kNumFunctions>());
}

template <typename T>
cudaError_t enqueue_packs(const FunctionArguments& arguments, cudaStream_t stream) {
  cudaError_t status = cudaErrorInvalidValue;
  with_function(arguments.function, [&]<Function f>() {
    if constexpr (takes<T>(f)) {
      const FunctionOf<f, T> function{parameters_of<Wide<T>>(arguments)};
      const PackOperands x = operands_of(arguments);
      if (arguments.is_one_run)
        status = enqueue_over_runs(function, x, true, stream);
      else if constexpr (num_inputs(f) > 1)
        status = enqueue_over_packs(function, x, arguments.strides, stream);
    }
  });
  return status;
}

}  // namespace sextant
