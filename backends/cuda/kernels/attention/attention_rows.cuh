// What the general attention kernels share: a block of warps owns rows (of queries or of keys), a
// few per warp, and meets the other rows in tiles of one row per lane, all in shared memory in the
// type that arithmetic uses. Heads larger than a chunk of columns come chunk after chunk: products
// of rows add up over them, and a block puts out the columns of one.
#pragma once

#include "backends/cuda/kernels/attention/attention.h"
#include "backends/cuda/kernels/shared/elements.cuh"

namespace sextant::attention_rows {

constexpr int kWarps = 8;
constexpr int kThreads = 32 * kWarps;
constexpr int kOthers = 32;  // one per lane
constexpr int kChunk = 256;  // columns
constexpr int kColumns = kChunk / 32;

// f64 takes twice the room, so a warp has half the rows.
template <typename T>
constexpr int kRows = sizeof(T) == 8 ? 2 : 4;
template <typename T>
constexpr int kOwn = kWarps* kRows<T>;

// Columns of a head.
struct Chunks {
  int size, count, width, stride;

  // The stride is odd, so that lanes that read the same column of different rows meet different
  // banks.
  __host__ __device__ explicit Chunks(std::int64_t columns)
      : size(static_cast<int>(columns)),
        count(columns <= kChunk ? 1 : (size + kChunk - 1) / kChunk),
        width(columns <= kChunk ? size : kChunk),
        stride(width | 1) {}
  __host__ __device__ int columns(int chunk) const {
    const int left = size - chunk * kChunk;
    return left < width ? left : width;
  }
  // Elements of a tile, and room for what lanes read beyond its last row.
  __host__ __device__ std::size_t tile_elements(int rows) const {
    return static_cast<std::size_t>(rows) * static_cast<std::size_t>(stride) + 32;
  }
};

// One chunk of rows [0, valid) of a tensor whose rows are `row_stride` apart; zeros elsewhere.
template <typename T>
__device__ void load_rows(Wide<T>* tile, const T* from, std::int64_t row_stride, std::int64_t valid,
                          int rows, const Chunks& chunks, int chunk) {
  const int width = chunks.width, columns = chunks.columns(chunk);
  from += chunk * kChunk;
  for (int i = static_cast<int>(threadIdx.x); i < rows * width; i += kThreads) {
    const int row = i / width, column = i - row * width;
    tile[row * chunks.stride + column] =
        row < valid && column < columns ? widen(from[row * row_stride + column]) : Wide<T>(0);
  }
}

// += products of this warp's rows with this lane's row of the other tile.
template <int rows, typename W>
__device__ void add_dots(const W* own, const W* other, const Chunks& chunks, W (&out)[rows]) {
  own += static_cast<int>(threadIdx.x / 32) * rows * chunks.stride;
  other += static_cast<int>(threadIdx.x % 32) * chunks.stride;
#pragma unroll 4
  for (int d = 0; d < chunks.width; ++d) {
    const W value = other[d];
#pragma unroll
    for (int r = 0; r < rows; ++r) out[r] += own[r * chunks.stride + d] * value;
  }
}

// sums[r] += weights[r] of lane j times row j of the other tile, over all j; lane l has the columns
// l, l + 32, ... of the chunk: those beyond its width hold nothing of use.
template <int rows, typename W>
__device__ void add_products(const W (&weights)[rows], const W* other, const Chunks& chunks,
                             W (&sums)[rows][kColumns]) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  for (int j = 0; j < kOthers; ++j) {
    W weight[rows];
#pragma unroll
    for (int r = 0; r < rows; ++r) weight[r] = __shfl_sync(0xFFFFFFFFU, weights[r], j);
#pragma unroll
    for (int i = 0; i < kColumns; ++i) {
      if (32 * i >= chunks.width) break;
      const W value = other[j * chunks.stride + lane + 32 * i];
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

// Of one row that begins at `at`: columns of this lane times `factor`.
template <typename T>
__device__ void store_row(void* out, std::int64_t at, const Wide<T> (&sums)[kColumns],
                          Wide<T> factor, const Chunks& chunks, int chunk, bool wide,
                          bool accumulate) {
  const int lane = static_cast<int>(threadIdx.x % 32);
#pragma unroll
  for (int i = 0; i < kColumns; ++i)
    if (lane + 32 * i < chunks.columns(chunk))
      store<T>(out, at + chunk * kChunk + lane + 32 * i, sums[i] * factor, wide, accumulate);
}

}  // namespace sextant::attention_rows
