// Casts, as many elements a thread as 16 bytes of the wider type hold. Many tensors are one launch:
// a block per piece, which it finds in a table, so that hundreds of biases cost no launches.
#include "backends/cuda/kernels/pointwise/cast.h"
#include "backends/cuda/kernels/pointwise/packs.cuh"

namespace sextant {
namespace {

// The type that all values of both types pass through: that of the CPU's reference, f32 for f64 on
// its way to 16 bits included (stored).
template <typename From, typename To>
struct Cast {
  static constexpr int kInputs = 1, kResults = 1;
  static constexpr int kSize = 16 / (sizeof(From) > sizeof(To) ? sizeof(From) : sizeof(To));
  static constexpr bool kIntegers =
      std::is_same_v<Wide<From>, std::int64_t> && std::is_same_v<Wide<To>, std::int64_t>;
  static constexpr bool kNeedsDouble =
      std::is_same_v<Wide<From>, double> || std::is_same_v<Wide<To>, double> ||
      std::is_same_v<Wide<From>, std::int64_t> || std::is_same_v<Wide<To>, std::int64_t>;
  using W =
      std::conditional_t<kIntegers, std::int64_t, std::conditional_t<kNeedsDouble, double, float>>;
  template <int>
  using Input = From;
  template <int>
  using Output = To;

  __device__ __forceinline__ void of(const W* in, W* results) const { results[0] = in[0]; }
};

template <typename From, typename To>
__global__ void __launch_bounds__(kPackThreads) cast_pieces(const CastPiece* pieces) {
  using F = Cast<From, To>;
  const CastPiece piece = pieces[blockIdx.x];
  PackOperands x;
  x.in[0] = piece.in;
  x.out[0] = piece.out;
  x.elements = piece.elements;
  const std::int64_t packs = piece.elements / F::kSize;
  constexpr int kAtOnce = 4;
  for (std::int64_t first = threadIdx.x; first < packs; first += kPackThreads * kAtOnce) {
    typename F::W in[kAtOnce][1][F::kSize];
#pragma unroll
    for (int p = 0; p < kAtOnce; ++p)
      load_inputs<F>(x, min(first + p * kPackThreads, packs - 1) * F::kSize, in[p], Inputs<F>());
#pragma unroll
    for (int p = 0; p < kAtOnce; ++p)
      if (first + p * kPackThreads < packs)
        store_results(F(), x, (first + p * kPackThreads) * F::kSize, in[p], Results<F>());
  }
  for (std::int64_t i = packs * F::kSize + threadIdx.x; i < piece.elements; i += kPackThreads) {
    typename F::W in[1][1];
    load_inputs<Single<F>>(x, i, in, Inputs<F>());
    store_results(Single<F>(), x, i, in, Results<F>());
  }
}

// with_type, but bool is a byte of any value.
template <typename Use>
cudaError_t with_stored_type(DType dtype, const Use& use) {
  if (dtype == DType::kBool) return use.template operator()<Flag>();
  return with_type(dtype, [&]<typename T>() {
    if constexpr (std::is_same_v<T, bool>)
      return cudaErrorInvalidValue;
    else
      return use.template operator()<T>();
  });
}

}  // namespace

cudaError_t enqueue_cast(const CastArguments& arguments, cudaStream_t stream) {
  PackOperands x;
  x.in[0] = arguments.in;
  x.out[0] = arguments.out;
  x.accumulate[0] = arguments.accumulate;
  x.elements = arguments.elements;
  return with_stored_type(arguments.from, [&]<typename From>() {
    return with_stored_type(arguments.to, [&]<typename To>() {
      return enqueue_over_runs(Cast<From, To>(), x, arguments.aligned, stream);
    });
  });
}

cudaError_t enqueue_cast_many(const CastManyArguments& arguments, cudaStream_t stream) {
  if (arguments.count == 0) return cudaSuccess;
  return with_floating_type(arguments.from, [&]<typename From>() {
    return with_floating_type(arguments.to, [&]<typename To>() {
      cast_pieces<From, To>
          <<<static_cast<unsigned>(arguments.count), kPackThreads, 0, stream>>>(arguments.pieces);
      return cudaGetLastError();
    });
  });
}

}  // namespace sextant
