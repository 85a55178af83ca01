// Chains in one pass (packs.cuh). What goes from member to member is not rounded to the dtype, so a
// result can differ from that of the members run one by one by what their roundings did.
#include "backends/cuda/kernels/pointwise/activations.cuh"
#include "backends/cuda/kernels/pointwise/chains.h"
#include "backends/cuda/kernels/pointwise/packs.cuh"

namespace sextant {
namespace {

template <typename T>
struct Operands {
  static constexpr int kResults = 2;
  static constexpr int kSize = 16 / sizeof(T);
  static constexpr bool kFast = sizeof(T) == 2;
  using W = Wide<T>;
  template <int>
  using Input = T;
  template <int>
  using Output = T;
};

template <typename T>
struct BiasGelu : Operands<T> {
  static constexpr int kInputs = 2;
  using W = Wide<T>;
  __device__ __forceinline__ void of(const W* in, W* results) const {
    results[0] = in[0] + in[1];
    results[1] = results[0] * normal_cdf(results[0]);
  }
};

template <typename T>
struct BiasGeluTanh : Operands<T> {
  static constexpr int kInputs = 2;
  using W = Wide<T>;
  __device__ __forceinline__ void of(const W* in, W* results) const {
    results[0] = in[0] + in[1];
    results[1] = gelu_tanh<Operands<T>::kFast>(results[0]);
  }
};

template <typename T>
struct SiluMul : Operands<T> {
  static constexpr int kInputs = 2;
  using W = Wide<T>;
  __device__ __forceinline__ void of(const W* in, W* results) const {
    results[0] = silu<Operands<T>::kFast>(in[0]);
    results[1] = results[0] * in[1];
  }
};

template <typename T>
struct MulSiluGrad : Operands<T> {
  static constexpr int kInputs = 3;
  using W = Wide<T>;
  __device__ __forceinline__ void of(const W* in, W* results) const {
    results[0] = in[0] * in[1];
    results[1] = results[0] * silu_slope<Operands<T>::kFast>(in[2]);
  }
};

template <typename T>
struct MulMulSiluGrad : Operands<T> {
  static constexpr int kInputs = 4, kResults = 3;
  using W = Wide<T>;
  __device__ __forceinline__ void of(const W* in, W* results) const {
    results[0] = in[0] * in[1];
    results[1] = in[0] * in[2];
    results[2] = results[1] * silu_slope<Operands<T>::kFast>(in[3]);
  }
};

template <template <typename> typename F>
cudaError_t enqueue_function(const ChainArguments& arguments, cudaStream_t stream) {
  PackOperands x;
  for (int k = 0; k < 4; ++k) x.in[k] = arguments.in[k];
  for (int k = 0; k < 3; ++k) x.out[k] = arguments.out[k];
  for (int k = 0; k < 3; ++k) x.accumulate[k] = arguments.accumulate[k];
  x.elements = arguments.elements;
  return with_floating_type(arguments.dtype, [&]<typename T>() {
    return arguments.is_one_run ? enqueue_over_runs(F<T>(), x, true, stream)
                                : enqueue_over_packs(F<T>(), x, arguments.strides, stream);
  });
}

template <typename W>
__device__ __forceinline__ W rounded_to(DType dtype, W value) {
  switch (dtype) {
    case DType::kF32:
      return static_cast<float>(value);
    case DType::kBF16:
      return widen(narrow<__nv_bfloat16>(value));
    case DType::kF16:
      return widen(narrow<__half>(value));
    default:
      return value;
  }
}

template <typename From, typename To>
struct CastChain {
  static constexpr int kInputs = 1, kResults = 1;
  static constexpr int kSize = 16 / (sizeof(From) > sizeof(To) ? sizeof(From) : sizeof(To));
  using W = std::conditional_t<sizeof(From) == 8 || sizeof(To) == 8, double, float>;
  template <int>
  using Input = From;
  template <int>
  using Output = To;

  __device__ __forceinline__ void of(const W* in, W* results) const {
    results[0] = second * rounded_to(middle, first * in[0]);
  }

  DType middle;
  W first, second;
};

}  // namespace

cudaError_t enqueue_chain(const ChainArguments& arguments, cudaStream_t stream) {
  switch (arguments.function) {
    case ChainFunction::kBiasGelu:
      return enqueue_function<BiasGelu>(arguments, stream);
    case ChainFunction::kBiasGeluTanh:
      return enqueue_function<BiasGeluTanh>(arguments, stream);
    case ChainFunction::kSiluMul:
      return enqueue_function<SiluMul>(arguments, stream);
    case ChainFunction::kMulSiluGrad:
      return enqueue_function<MulSiluGrad>(arguments, stream);
    case ChainFunction::kMulMulSiluGrad:
      return enqueue_function<MulMulSiluGrad>(arguments, stream);
  }
  return cudaErrorInvalidValue;
}

cudaError_t enqueue_cast_chain(const CastChainArguments& arguments, cudaStream_t stream) {
  PackOperands x;
  x.in[0] = arguments.in;
  x.out[0] = arguments.out;
  x.accumulate[0] = arguments.accumulate;
  x.elements = arguments.elements;
  return with_floating_type(arguments.from, [&]<typename From>() {
    return with_floating_type(arguments.to, [&]<typename To>() {
      using F = CastChain<From, To>;
      using W = typename F::W;
      const F chain{arguments.middle, static_cast<W>(arguments.first),
                    static_cast<W>(arguments.second)};
      return enqueue_over_runs(chain, x, arguments.aligned, stream);
    });
  });
}

}  // namespace sextant
