// Reductions in device code: over a warp or a block, along a row 16 bytes at a time, and over the
// rows of a matrix, column by column, in two stages. All in a fixed order: the same bits in every
// run.
#pragma once

#include "backends/cuda/kernels/column_sums.h"
#include "backends/cuda/kernels/elements.cuh"

#include <cuda_runtime.h>

#include <cstdint>

namespace sextant {

inline constexpr int kWarp = 32;

struct Plus {
  template <typename W>
  __device__ __forceinline__ W operator()(W a, W b) const {
    return a + b;
  }
};
// NaN wins over every number, from either side.
struct Larger {
  template <typename W>
  __device__ __forceinline__ W operator()(W a, W b) const {
    return a < b || b != b ? b : a;
  }
};
struct Smaller {
  template <typename W>
  __device__ __forceinline__ W operator()(W a, W b) const {
    return b < a || b != b ? b : a;
  }
};

// In every lane. All lanes of the warp call.
template <typename W, typename Combine>
__device__ __forceinline__ W over_warp(W value, const Combine& combine) {
#pragma unroll
  for (int distance = kWarp / 2; distance > 0; distance /= 2)
    value = combine(value, __shfl_xor_sync(0xFFFFFFFFu, value, distance));
  return value;
}

// In every thread of a group: a warp, or a block of kThreads, a multiple of 32 up to 1024. All
// threads of the group call.
template <int kThreads, typename W, typename Combine>
__device__ __forceinline__ W over_group(W value, const Combine& combine) {
  value = over_warp(value, combine);
  if constexpr (kThreads > kWarp) {
    constexpr int kWarps = kThreads / kWarp;
    __shared__ W parts[kWarps];
    __syncthreads();  // the parts of an earlier call have been read
    if (threadIdx.x % kWarp == 0) parts[threadIdx.x / kWarp] = value;
    __syncthreads();
    if constexpr (kWarps == kWarp) {
      value = over_warp(parts[threadIdx.x % kWarp], combine);
    } else {
      value = parts[0];
#pragma unroll
      for (int warp = 1; warp < kWarps; ++warp) value = combine(value, parts[warp]);
    }
  }
  return value;
}

// A row of any alignment: elements to the first 16-byte boundary, whole packs, the rest.
struct RowParts {
  std::int64_t head = 0, packs = 0, tail = 0;  // the tail as the index of its first element
};
template <typename T>
__device__ __forceinline__ RowParts parts_of(const T* row, std::int64_t length) {
  const auto past = reinterpret_cast<std::uintptr_t>(row) % 16 / sizeof(T);
  RowParts parts;
  if (past != 0) parts.head = Pack<T>::kSize - static_cast<std::int64_t>(past);
  if (parts.head > length) parts.head = length;
  parts.packs = (length - parts.head) / Pack<T>::kSize;
  parts.tail = parts.head + parts.packs * Pack<T>::kSize;
  return parts;
}

// Calls for what thread `thread` of `threads` (32 or more) has of a row: `use_pack(index of its
// first element, Pack<T>)`, kLoads of them loaded at a time, and `use_one(index, value of T)` where
// there is no whole pack.
template <int kLoads, typename T, typename UseOne, typename UsePack>
__device__ __forceinline__ void for_each_pack_of_row(const T* row, std::int64_t length, int thread,
                                                     int threads, const UseOne& use_one,
                                                     const UsePack& use_pack) {
  constexpr int kSize = Pack<T>::kSize;
  const RowParts parts = parts_of(row, length);
  if (thread < parts.head) use_one(std::int64_t{thread}, row[thread]);
  const auto* packs = reinterpret_cast<const Pack<T>*>(row + parts.head);
  std::int64_t first = thread;
  for (; first + (kLoads - 1) * threads < parts.packs; first += kLoads * threads) {
    Pack<T> loaded[kLoads];
#pragma unroll
    for (int load = 0; load < kLoads; ++load) loaded[load] = packs[first + load * threads];
#pragma unroll
    for (int load = 0; load < kLoads; ++load)
      use_pack(parts.head + (first + load * threads) * kSize, loaded[load]);
  }
  for (; first < parts.packs; first += threads) use_pack(parts.head + first * kSize, packs[first]);
  if (thread < length - parts.tail) use_one(parts.tail + thread, row[parts.tail + thread]);
}

// Calls `use(index, wide value)` for every element that the thread has.
template <int kLoads, typename T, typename Use>
__device__ __forceinline__ void for_each_of_row(const T* row, std::int64_t length, int thread,
                                                int threads, const Use& use) {
  for_each_pack_of_row<kLoads>(
      row, length, thread, threads, [&](std::int64_t index, T value) { use(index, widen(value)); },
      [&](std::int64_t index, const Pack<T>& pack) {
#pragma unroll
        for (int i = 0; i < Pack<T>::kSize; ++i) use(index + i, widen(pack.values[i]));
      });
}

// Sums over the rows of [rows, columns], column by column. What is summed is a `Source`:
//   using Sum;                    // type of the sums
//   static constexpr int kWidth;  // neighbouring columns of a thread; divides `columns`
//   static constexpr int kSums;   // sums per column
//   __device__ void add(int64 row, int64 column, Sum (&sums)[kSums][kWidth]) const;
// where it goes a `Sink`:
//   __device__ void store(int sum, int64 column, Sum value) const;
// First blocks of 32 x kWidth columns sum chunks of the rows, then the chunks are added.
inline constexpr int kColumnWarps = 8;
inline constexpr int kAddingWarps = 16;

template <typename Source, typename Sink>
__global__ void __launch_bounds__(kColumnWarps* kWarp)
    sum_chunks(Source source, Sink sink, std::int64_t rows, std::int64_t columns,
               std::int64_t chunk_rows, typename Source::Sum* partial) {
  using Sum = typename Source::Sum;
  constexpr int kWidth = Source::kWidth, kSums = Source::kSums;
  __shared__ Sum shared[kColumnWarps][kSums * kWidth][kWarp + 1];
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const std::int64_t tile = std::int64_t{blockIdx.x} * kWarp * kWidth;
  const std::int64_t column = tile + lane * kWidth;
  Sum sums[kSums][kWidth] = {};
  if (column < columns) {
    const std::int64_t begin = std::int64_t{blockIdx.y} * chunk_rows;
    const std::int64_t end = begin + chunk_rows < rows ? begin + chunk_rows : rows;
#pragma unroll 4
    for (std::int64_t row = begin + warp; row < end; row += kColumnWarps)
      source.add(row, column, sums);
  }
#pragma unroll
  for (int sum = 0; sum < kSums; ++sum)
#pragma unroll
    for (int i = 0; i < kWidth; ++i) shared[warp][sum * kWidth + i][lane] = sums[sum][i];
  __syncthreads();
  for (int at = static_cast<int>(threadIdx.x); at < kSums * kWidth * kWarp;
       at += kColumnWarps * kWarp) {
    const int sum = at / (kWidth * kWarp), offset = at % (kWidth * kWarp);
    if (tile + offset >= columns) continue;
    Sum total = 0;
#pragma unroll
    for (int of = 0; of < kColumnWarps; ++of)
      total += shared[of][sum * kWidth + offset % kWidth][offset / kWidth];
    if (gridDim.y == 1)
      sink.store(sum, tile + offset, total);
    else
      partial[(std::int64_t{blockIdx.y} * kSums + sum) * columns + tile + offset] = total;
  }
}

// A block adds 32 of the kSums x columns sums.
template <typename Sum, typename Sink>
__global__ void __launch_bounds__(kAddingWarps* kWarp)
    add_chunks(Sink sink, const Sum* partial, std::int64_t chunks, std::int64_t columns,
               std::int64_t all) {
  __shared__ Sum shared[kAddingWarps][kWarp];
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const std::int64_t at = std::int64_t{blockIdx.x} * kWarp + lane;
  Sum total = 0;
  if (at < all) {
#pragma unroll 4
    for (std::int64_t chunk = warp; chunk < chunks; chunk += kAddingWarps)
      total += partial[chunk * all + at];
  }
  shared[warp][lane] = total;
  __syncthreads();
  if (warp > 0 || at >= all) return;
  for (int of = 1; of < kAddingWarps; ++of) total += shared[of][lane];
  sink.store(static_cast<int>(at / columns), at % columns, total);
}

// `scratch`: ColumnSums::kScratchBytes of the compute queue, for instance its workspace.
template <typename Source, typename Sink>
cudaError_t enqueue_column_sums(const Source& source, const Sink& sink, std::int64_t rows,
                                std::int64_t columns, void* scratch, cudaStream_t stream) {
  using Sum = typename Source::Sum;
  static_assert(Source::kSums <= ColumnSums::kMostSums);
  static_assert(Source::kWidth * sizeof(Sum) <= ColumnSums::kMostBytes);
  if (columns == 0) return cudaSuccess;
  const ColumnSums plan(rows, columns, Source::kWidth);
  auto* partial = static_cast<Sum*>(scratch);
  const dim3 grid(static_cast<unsigned>(plan.tiles), static_cast<unsigned>(plan.chunks));
  sum_chunks<<<grid, kColumnWarps * kWarp, 0, stream>>>(source, sink, rows, columns,
                                                        plan.chunk_rows, partial);
  if (plan.chunks > 1) {
    const std::int64_t all = columns * Source::kSums;
    add_chunks<<<static_cast<unsigned>((all + kWarp - 1) / kWarp), kAddingWarps * kWarp, 0,
                 stream>>>(sink, partial, plan.chunks, columns, all);
  }
  return cudaGetLastError();
}

}  // namespace sextant
