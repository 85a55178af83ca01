// The gradient of a bias: sums over rows (column_sums.cuh), f64 in f64 and the rest in f32, eight
// rows of packs a thread in flight.
#include "backends/cuda/kernels/pointwise/bias.h"
#include "backends/cuda/kernels/pointwise/packs.cuh"
#include "backends/cuda/kernels/shared/column_sums.cuh"

namespace sextant {
namespace {

template <typename T, int kSizeOf>
struct BiasSource {
  using Sum = Wide<T>;
  using Loaded = Columns<T, kSizeOf>;
  static constexpr int kSize = kSizeOf, kSums = 1, kRowsAtOnce = kSize == 1 ? 16 : 8;
  const T* dy;

  __device__ __forceinline__ Loaded load(std::int64_t /*row*/, std::int64_t at) const {
    return columns_at<kSize>(dy + at);
  }
  __device__ __forceinline__ void add(const Loaded& loaded, Sum (&sums)[kSums][kSize]) const {
    Sum values[kSize];
    loaded.widen_to(values);
#pragma unroll
    for (int j = 0; j < kSize; ++j) sums[0][j] += values[j];
  }
};

template <typename S>
struct BiasSink {
  DType dtype;
  void* bias;
  bool accumulate;

  __device__ void store(int /*sum*/, std::int64_t column, S value) const {
    switch (dtype) {
      case DType::kF64:
        return store_run<double, 1>(bias, column, accumulate, &value);
      case DType::kF32:
        return store_run<float, 1>(bias, column, accumulate, &value);
      case DType::kBF16:
        return store_run<__nv_bfloat16, 1>(bias, column, accumulate, &value);
      case DType::kF16:
        return store_run<__half, 1>(bias, column, accumulate, &value);
      default:
        return;
    }
  }
};

// One of several matrices.
template <typename Source>
struct AnyBiasSource : Source {
  const void* const* all;
  __device__ __forceinline__ void select(std::int64_t matrix) {
    this->dy = static_cast<decltype(this->dy)>(all[matrix]);
  }
};

template <typename Sink>
struct AnyBiasSink : Sink {
  void* const* all;
  __device__ __forceinline__ void select(std::int64_t matrix) { this->bias = all[matrix]; }
};

template <typename T, int kSize>
cudaError_t start(const ReduceToBiasArguments& x, cudaStream_t stream) {
  const BiasSource<T, kSize> source = {static_cast<const T*>(x.dy)};
  const BiasSink<Wide<T>> sink = {x.out_dtype, x.bias, x.accumulate};
  if (x.all_dy == nullptr)
    return enqueue_column_sums(source, sink, x.rows, x.columns, x.scratch, x.finished, stream);
  const AnyBiasSource<BiasSource<T, kSize>> any_source = {source, x.all_dy};
  const AnyBiasSink<BiasSink<Wide<T>>> any_sink = {sink, x.all_bias};
  return enqueue_column_sums(any_source, any_sink, x.rows, x.columns, x.scratch, x.finished, stream,
                             x.matrices);
}

}  // namespace

cudaError_t enqueue_reduce_to_bias(const ReduceToBiasArguments& arguments, cudaStream_t stream) {
  return with_floating_type(arguments.dtype, [&]<typename T>() {
    return arguments.pack > 1 ? start<T, 16 / sizeof(T)>(arguments, stream)
                              : start<T, 1>(arguments, stream);
  });
}

}  // namespace sextant
