// What the general attention kernels share: a block of warps owns rows (of queries or of keys), a
// few per warp, and meets the other rows in tiles of one row per lane, all in shared memory in the
// type that arithmetic uses.
#pragma once

#include "backends/cuda/kernels/attention.h"
#include "backends/cuda/kernels/elements.cuh"

namespace sextant::attention_rows {

constexpr int kWarps = 8;
constexpr int kThreads = 32 * kWarps;
constexpr int kOthers = 32;  // one per lane
constexpr int kColumns = static_cast<int>(kMostHeadSize) / 32;

// f64 takes twice the room, so a warp has half the rows.
template <typename T>
constexpr int kRows = sizeof(T) == 8 ? 2 : 4;
template <typename T>
constexpr int kOwn = kWarps* kRows<T>;

// Odd, so that lanes that read the same column of different rows meet different banks.
__host__ __device__ inline int stride_of(std::int64_t size) { return static_cast<int>(size) | 1; }

// Rows [0, valid) of a tensor whose rows are `row_stride` apart; zeros up to `rows`.
template <typename T>
__device__ void load_rows(Wide<T>* tile, const T* from, std::int64_t row_stride, std::int64_t valid,
                          int rows, int size) {
  const int stride = stride_of(size);
  for (int i = static_cast<int>(threadIdx.x); i < rows * size; i += kThreads) {
    const int row = i / size, column = i - row * size;
    tile[row * stride + column] = row < valid ? widen(from[row * row_stride + column]) : Wide<T>(0);
  }
}

// Products of this warp's rows with this lane's row of the other tile.
template <int rows, typename W>
__device__ void dot_rows(const W* own, const W* other, int size, W (&out)[rows]) {
  const int stride = stride_of(size);
  const W* mine = other + static_cast<int>(threadIdx.x % 32) * stride;
#pragma unroll
  for (int r = 0; r < rows; ++r) out[r] = 0;
#pragma unroll 4
  for (int d = 0; d < size; ++d) {
    const W value = mine[d];
#pragma unroll
    for (int r = 0; r < rows; ++r) out[r] += own[r * stride + d] * value;
  }
}

// sums[r] += weights[r] of lane j times row j of the other tile, over all j; lane l has the columns
// l, l + 32, ...: those beyond `size` hold nothing of use.
template <int rows, typename W>
__device__ void add_products(const W (&weights)[rows], const W* other, int size,
                             W (&sums)[rows][kColumns]) {
  const int stride = stride_of(size);
  const int lane = static_cast<int>(threadIdx.x % 32);
  for (int j = 0; j < kOthers; ++j) {
    W weight[rows];
#pragma unroll
    for (int r = 0; r < rows; ++r) weight[r] = __shfl_sync(0xFFFFFFFFU, weights[r], j);
#pragma unroll
    for (int i = 0; i < kColumns; ++i) {
      if (32 * i >= size) break;
      const W value = other[j * stride + lane + 32 * i];
#pragma unroll
      for (int r = 0; r < rows; ++r) sums[r][i] += weight[r] * value;
    }
  }
}

template <typename W>
__device__ void put(void* out, std::int64_t at, W value, bool accumulate) {
  W* to = static_cast<W*>(out) + at;
  *to = accumulate ? *to + value : value;
}

// One element of an output in T or wide.
template <typename T>
__device__ void store(void* out, std::int64_t at, Wide<T> value, bool wide, bool accumulate) {
  if (wide) {
    put<Wide<T>>(out, at, value, accumulate);
    return;
  }
  T* to = static_cast<T*>(out) + at;
  *to = narrow<T>(accumulate ? widen(*to) + value : value);
}

// Of one row: columns of this lane times `factor`.
template <typename T>
__device__ void store_row(void* out, std::int64_t at, const Wide<T> (&sums)[kColumns],
                          Wide<T> factor, int size, bool wide, bool accumulate) {
  const int lane = static_cast<int>(threadIdx.x % 32);
#pragma unroll
  for (int i = 0; i < kColumns; ++i)
    if (lane + 32 * i < size) store<T>(out, at + lane + 32 * i, sums[i] * factor, wide, accumulate);
}

// Elements of a tile, and room for what lanes read beyond its last row.
__host__ __device__ inline std::size_t tile_elements(int rows, std::int64_t size) {
  return static_cast<std::size_t>(rows) * static_cast<std::size_t>(stride_of(size)) + 32;
}

}  // namespace sextant::attention_rows
