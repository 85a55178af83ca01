// Statistics of tensors: 256 threads a block, a block per chunk, 16 bytes per thread and access.
// The block that finishes a tensor adds the pairs of its chunks, in their order.
#include "backends/cuda/kernels/shared/numbers.cuh"
#include "backends/cuda/kernels/shared/reduce.cuh"
#include "backends/cuda/kernels/training/stats.h"

namespace sextant {
namespace {

constexpr int kThreads = 256;

// A sum of squares of the finite elements and how many others there are.
struct Squares {
  double sum = 0;
  int others = 0;

  __device__ __forceinline__ void add(double value) {
    const bool is_number = isfinite(value);
    sum += is_number ? value * value : 0.0;
    others += is_number ? 0 : 1;
  }
};

// All elements count, finite or not: what LAMB compares are norms.
struct PlainSquares {
  double sum = 0;
  int others = 0;
  __device__ __forceinline__ void add(double value) { sum += value * value; }
};

// Numbers of a floating type as f64 without the conversion, which has a sixteenth of the rate of
// other instructions: exponent and mantissa, moved to where f64 has them, are the number over
// kUnit, subnormal ones too. Infinities and NaN look like large numbers then: from kInfinity on.
template <typename T>
struct Format;
template <>
struct Format<float> {
  static constexpr std::uint32_t kInfinity = 255u << 20;
  static constexpr double kUnit = 0x1p896;
};
template <>
struct Format<__nv_bfloat16> {
  static constexpr int kShift = 13;  // of the lower one of two in a word
  static constexpr std::uint32_t kInfinity = 255u << 20;
  static constexpr double kUnit = 0x1p896;
};
template <>
struct Format<__half> {
  static constexpr int kShift = 10;
  static constexpr std::uint32_t kInfinity = 31u << 20;
  static constexpr double kUnit = 0x1p1008;
};

// Squares of numbers and the upper half of the largest magnitude.
template <typename T>
struct Magnitudes {
  double sum = 0;
  std::uint32_t most = 0;

  __device__ __forceinline__ void add(std::uint32_t upper, std::uint32_t lower) {
    const double value =
        Format<T>::kUnit * __hiloint2double(static_cast<int>(upper), static_cast<int>(lower));
    sum = fma(value, value, sum);
    most = max(most, upper);
  }
  __device__ __forceinline__ void add_word(std::uint32_t word) {
    if constexpr (sizeof(T) == 4) {
      add((word & 0x7FFFFFFFu) >> 3, word << 29);
    } else {
      constexpr int kShift = Format<T>::kShift;
      constexpr std::uint32_t kMask = 0x7FFFu << kShift;
      add(word << kShift & kMask, 0);
      add(word >> (16 - kShift) & kMask, 0);
    }
  }
};

// Adds the squares of the thread's packs, or nothing where one of its numbers is not finite: false.
// Loads are not guarded, so that they are in flight together: beyond the end the last pack.
template <typename T>
__device__ __forceinline__ bool add_finite(const T* x, int packs, double& sum) {
  constexpr int kLoads = 4;
  Magnitudes<T> magnitudes[2];  // two sums side by side
  const auto* all = reinterpret_cast<const uint4*>(x);
#pragma unroll 1
  for (int first = static_cast<int>(threadIdx.x); first < packs; first += kLoads * kThreads) {
    uint4 loaded[kLoads];
#pragma unroll
    for (int l = 0; l < kLoads; ++l) loaded[l] = __ldg(all + min(first + l * kThreads, packs - 1));
#pragma unroll
    for (int l = 0; l < kLoads; ++l) {
      if (first + l * kThreads >= packs) continue;
      for (const std::uint32_t word : {loaded[l].x, loaded[l].y, loaded[l].z, loaded[l].w})
        magnitudes[l % 2].add_word(word);
    }
  }
  if (max(magnitudes[0].most, magnitudes[1].most) >= Format<T>::kInfinity) return false;
  sum += magnitudes[0].sum + magnitudes[1].sum;
  return true;
}

template <typename T, typename Sum>
__device__ Sum sum_of(const void* data, std::int64_t first, int count, bool is_aligned) {
  const T* x = static_cast<const T*>(data) + first;
  constexpr int kSize = Pack<T>::kSize;
  const int packs = is_aligned ? count / kSize : 0;
  Sum sum;
  bool is_done = false;
  if constexpr (!std::is_same_v<T, double>) is_done = add_finite(x, packs, sum.sum);
  if (!is_done) {
#pragma unroll 1
    for (int i = static_cast<int>(threadIdx.x); i < packs; i += kThreads) {
      const auto pack = reinterpret_cast<const Pack<T>*>(x)[i];
#pragma unroll
      for (int k = 0; k < kSize; ++k) sum.add(static_cast<double>(widen(pack.values[k])));
    }
  }
#pragma unroll 1
  for (int i = packs * kSize + static_cast<int>(threadIdx.x); i < count; i += kThreads)
    sum.add(static_cast<double>(widen(x[i])));
  return sum;
}

template <typename T>
__device__ double2 pair_of(const CudaStatsRow& row, std::int64_t first, int count) {
  if (row.y == nullptr) {
    const auto squares = sum_of<T, Squares>(row.x, first, count, row.is_aligned);
    return {squares.sum, static_cast<double>(squares.others)};
  }
  return {sum_of<T, PlainSquares>(row.x, first, count, row.is_aligned).sum,
          sum_of<T, PlainSquares>(row.y, first, count, row.is_aligned).sum};
}

__device__ double2 pair_of_chunk(const CudaStatsRow& row, std::int64_t first, int count) {
  switch (row.type) {
    case DType::kF64:
      return pair_of<double>(row, first, count);
    case DType::kBF16:
      return pair_of<__nv_bfloat16>(row, first, count);
    case DType::kF16:
      return pair_of<__half>(row, first, count);
    default:
      return pair_of<float>(row, first, count);
  }
}

__device__ void put_stats(double* stats, double2 sums, bool accumulate) {
  stats[0] = accumulate ? stats[0] + sums.x : sums.x;
  stats[1] = accumulate ? stats[1] + sums.y : sums.y;
}

// Whether the block is the last of `count` that come here; what thread 0 of the others wrote is
// seen by reads past the first-level cache, which other rows' pairs may have filled.
__device__ bool is_last(unsigned* finished, std::int64_t count) {
  __shared__ bool last;
  if (threadIdx.x == 0) {
    __threadfence();
    last = atomicAdd(finished, 1u) + 1u == static_cast<unsigned>(count);
    if (last) *finished = 0;
    __threadfence();
  }
  __syncthreads();
  return last;
}

__global__ void __launch_bounds__(kThreads, 6) stats_of_chunks(CudaStats x) {
  const CudaChunk chunk = x.chunks[blockIdx.x];
  const CudaStatsRow row = x.rows[chunk.row];
  const std::int64_t left = row.elements - chunk.first;
  const std::int64_t count = left < row.chunk_elements ? left : row.chunk_elements;
  double2 sums = sum_over_block<kThreads>(pair_of_chunk(row, chunk.first, static_cast<int>(count)));
  auto* pairs = reinterpret_cast<double2*>(x.scratch);
  if (threadIdx.x == 0) pairs[blockIdx.x] = sums;
  if (!is_last(x.finished + chunk.row, row.num_chunks)) return;
  sums = {0.0, 0.0};
  for (std::int64_t i = threadIdx.x; i < row.num_chunks; i += kThreads) {
    const double2 pair = __ldcg(pairs + row.first_chunk + i);
    sums.x += pair.x;
    sums.y += pair.y;
  }
  sums = sum_over_block<kThreads>(sums);
  if (threadIdx.x == 0) put_stats(row.stats, sums, row.accumulate);
}

__global__ void __launch_bounds__(kThreads) add_stats(CudaAddStats x) {
  double2 sums = {0.0, 0.0};
  for (std::int64_t i = threadIdx.x; i < x.count; i += kThreads) {
    sums.x += x.inputs[i][0];
    sums.y += x.inputs[i][1];
  }
  sums = sum_over_block<kThreads>(sums);
  if (threadIdx.x == 0) put_stats(x.stats, sums, x.accumulate);
}

}  // namespace

cudaError_t enqueue_stats(const CudaStats& stats, cudaStream_t stream) {
  if (stats.num_rows == 0) return cudaSuccess;
  stats_of_chunks<<<static_cast<unsigned>(stats.num_chunks), kThreads, 0, stream>>>(stats);
  return cudaGetLastError();
}

cudaError_t enqueue_add_stats(const CudaAddStats& sum, cudaStream_t stream) {
  add_stats<<<1, kThreads, 0, stream>>>(sum);
  return cudaGetLastError();
}

}  // namespace sextant
