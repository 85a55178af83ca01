// Sums over rows, f64 in f64 and the rest in f32, in one launch and a fixed order. A block of 256
// sums a chunk of the rows of a tile of columns: 8 lanes of 16 bytes (or 32 of one column) along a
// row, the other threads along the rows, eight rows in flight. The block of a tile that comes last
// adds the chunks, in their order whichever block it is. Narrow tiles leave it few chunks to add:
// two launches with tiles of 512 bytes took 15.8 us for [16384, 1024] bf16, half the rate of a
// copy.
#include "backends/cuda/kernels/bias.h"
#include "backends/cuda/kernels/packs.cuh"

namespace sextant {
namespace {

constexpr int kThreads = 256;
constexpr int kRowsAtOnce = 8;

// The sum of one column over all `parts` of it in shared memory.
template <int kParts, int kWidth, typename S>
__device__ __forceinline__ S over_parts(const S (&shared)[kParts][kWidth], int column) {
  S sum = shared[0][column];
#pragma unroll
  for (int part = 1; part < kParts; ++part) sum += shared[part][column];
  return sum;
}

template <typename S>
__device__ void store_bias(const ReduceToBiasArguments& x, std::int64_t column, S value) {
  switch (x.out_dtype) {
    case DType::kF64:
      return store_run<double, 1>(x.bias, column, x.accumulate, &value);
    case DType::kF32:
      return store_run<float, 1>(x.bias, column, x.accumulate, &value);
    case DType::kBF16:
      return store_run<__nv_bfloat16, 1>(x.bias, column, x.accumulate, &value);
    case DType::kF16:
      return store_run<__half, 1>(x.bias, column, x.accumulate, &value);
    default:
      return;
  }
}

// Adds rows `row`, `row + kGroups` ... below `end` of kSize columns. Loads are not guarded, so that
// they are in flight together: beyond the end the last row, of which nothing is added again.
template <typename T, int kSize, int kGroups, typename S>
__device__ __forceinline__ void add_rows(const ReduceToBiasArguments& x, std::int64_t row,
                                         std::int64_t end, std::int64_t column, S (&sums)[kSize]) {
  for (; row < end; row += kRowsAtOnce * kGroups) {
    S values[kRowsAtOnce][kSize];
#pragma unroll
    for (int r = 0; r < kRowsAtOnce; ++r)
      load_run<T, kSize>(x.dy, min(row + r * kGroups, end - 1) * x.columns + column, values[r]);
#pragma unroll
    for (int r = 0; r < kRowsAtOnce; ++r) {
      const bool is_row = row + r * kGroups < end;
#pragma unroll
      for (int j = 0; j < kSize; ++j) sums[j] += is_row ? values[r][j] : S(0);
    }
  }
}

// Whether all blocks of the tile have written what they wrote before. All threads call.
__device__ bool is_last_of_tile(std::uint32_t* finished) {
  __shared__ bool last;
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) {
    last = atomicAdd(finished, 1u) + 1u == gridDim.y;
    if (last) *finished = 0;
    __threadfence();
  }
  __syncthreads();
  return last;
}

template <typename T, int kSize, int kLanes>
__global__ void __launch_bounds__(kThreads, 4)
    sum_rows(const ReduceToBiasArguments x, std::int64_t chunk_rows) {
  using S = Wide<T>;
  constexpr int kGroups = kThreads / kLanes, kWidth = kLanes * kSize;
  constexpr int kParts = kThreads / kWidth;  // threads per column when chunks are added
  static_assert(kWidth <= kThreads && kGroups >= kParts);
  __shared__ S shared[kGroups][kWidth];
  const int thread = static_cast<int>(threadIdx.x);
  const int lane = thread % kLanes, group = thread / kLanes;
  const std::int64_t tile = std::int64_t{blockIdx.x} * kWidth;
  const std::int64_t begin = std::int64_t{blockIdx.y} * chunk_rows;
  S sums[kSize] = {};
  if (tile + lane * kSize < x.columns)
    add_rows<T, kSize, kGroups>(x, begin + group, min(begin + chunk_rows, x.rows),
                                tile + lane * kSize, sums);
#pragma unroll
  for (int j = 0; j < kSize; ++j) shared[group][lane * kSize + j] = sums[j];
  __syncthreads();
  const int column = thread % kWidth, part = thread / kWidth;
  const bool is_inside = tile + column < x.columns;
  auto* partial = static_cast<S*>(x.scratch) + tile + column;
  if (part == 0 && is_inside) {
    const S sum = over_parts(shared, column);
    if (gridDim.y == 1)
      store_bias(x, tile + column, sum);
    else
      partial[blockIdx.y * x.columns] = sum;
  }
  if (gridDim.y == 1 || !is_last_of_tile(x.finished + blockIdx.x)) return;
  S sum = 0;
  if (is_inside) {
#pragma unroll 8
    for (unsigned chunk = static_cast<unsigned>(part); chunk < gridDim.y; chunk += kParts)
      sum += __ldcg(partial + chunk * x.columns);  // written by other processors: not from L1
  }
  S(&parts)[kParts][kWidth] = reinterpret_cast<S(&)[kParts][kWidth]>(shared);
  parts[part][column] = sum;
  __syncthreads();
  if (part == 0 && is_inside) store_bias(x, tile + column, over_parts(parts, column));
}

template <typename T, int kSize>
cudaError_t start(const ReduceToBiasArguments& x, cudaStream_t stream) {
  const BiasTiles plan(x.rows, x.columns, kSize);
  const dim3 grid(static_cast<unsigned>(plan.tiles), static_cast<unsigned>(plan.chunks));
  if (plan.lanes == BiasTiles::kWide)
    sum_rows<T, kSize, BiasTiles::kWide><<<grid, kThreads, 0, stream>>>(x, plan.chunk_rows);
  else if constexpr (kSize > 1)
    sum_rows<T, kSize, BiasTiles::kNarrow><<<grid, kThreads, 0, stream>>>(x, plan.chunk_rows);
  return cudaGetLastError();
}

}  // namespace

cudaError_t enqueue_reduce_to_bias(const ReduceToBiasArguments& arguments, cudaStream_t stream) {
  if (arguments.columns == 0) return cudaSuccess;
  return with_floating_type(arguments.dtype, [&]<typename T>() {
    return arguments.pack > 1 ? start<T, 16 / sizeof(T)>(arguments, stream)
                              : start<T, 1>(arguments, stream);
  });
}

}  // namespace sextant
