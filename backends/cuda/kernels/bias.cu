// Sums over rows, f64 in f64 and the rest in f32, by column (reduce.cuh): 16 bytes of a row a lane,
// four rows in flight.
#include "backends/cuda/kernels/bias.h"
#include "backends/cuda/kernels/packs.cuh"
#include "backends/cuda/kernels/reduce.cuh"

namespace sextant {
namespace {

template <typename T, int kSize>
struct Rows {
  using Sum = Wide<T>;
  static constexpr int kWidth = kSize, kSums = 1;

  __device__ __forceinline__ void add(std::int64_t row, std::int64_t column,
                                      Sum (&sums)[1][kWidth]) const {
    Sum values[kWidth];
    load_run<T, kWidth>(dy, row * columns + column, values);
#pragma unroll
    for (int j = 0; j < kWidth; ++j) sums[0][j] += values[j];
  }

  const void* dy;
  std::int64_t columns;
};

template <typename W>
struct Bias {
  __device__ __forceinline__ void store(int /*sum*/, std::int64_t column, W value) const {
    switch (dtype) {
      case DType::kF64:
        return store_run<double, 1>(data, column, accumulate, &value);
      case DType::kF32:
        return store_run<float, 1>(data, column, accumulate, &value);
      case DType::kBF16:
        return store_run<__nv_bfloat16, 1>(data, column, accumulate, &value);
      case DType::kF16:
        return store_run<__half, 1>(data, column, accumulate, &value);
      default:
        return;
    }
  }

  void* data;
  DType dtype;
  bool accumulate;
};

template <typename T, int kSize>
cudaError_t enqueue_sums(const ReduceToBiasArguments& x, cudaStream_t stream) {
  const Rows<T, kSize> rows{x.dy, x.columns};
  const Bias<Wide<T>> bias{x.bias, x.out_dtype, x.accumulate};
  return enqueue_column_sums(rows, bias, x.rows, x.columns, x.scratch, stream);
}

}  // namespace

cudaError_t enqueue_reduce_to_bias(const ReduceToBiasArguments& arguments, cudaStream_t stream) {
  return with_floating_type(arguments.dtype, [&]<typename T>() {
    constexpr int kSize = 16 / sizeof(T);
    return arguments.aligned && arguments.columns % kSize == 0
               ? enqueue_sums<T, kSize>(arguments, stream)
               : enqueue_sums<T, 1>(arguments, stream);
  });
}

}  // namespace sextant
