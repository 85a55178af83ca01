// Sums over the rows of [rows, columns], column by column, in one launch and a fixed order. A block
// of 256 sums a chunk of the rows of a tile of columns: 8 lanes of 16 bytes (or 32 lanes) along a
// row, the other threads along the rows, several rows in flight. The block of a tile that comes
// last adds the chunks, in their order whichever block it is. Narrow tiles leave it few chunks to
// add: two launches with tiles of 512 bytes took 15.8 us for one sum of [16384, 1024] bf16, half
// the rate of a copy.
//
// What is summed is a `Source`:
//   using Sum;                         // type of the sums
//   static constexpr int kSize;        // neighbouring columns of a lane; divides `columns`
//   static constexpr int kSums;        // sums per column
//   static constexpr int kRowsAtOnce;  // rows of a thread in flight
//   struct Loaded;
//   __device__ Loaded load(int64 row, int64 column) const;
//   __device__ void add(const Loaded&, bool counts, Sum (&sums)[kSums][kSize]) const;
// where it goes a `Sink`:
//   __device__ void store(int sum, int64 column, Sum value) const;
#pragma once

#include "backends/cuda/kernels/column_sums.h"

#include <cuda_runtime.h>

#include <cstdint>

namespace sextant {

inline constexpr int kColumnThreads = 256;

// Adds rows `row`, `row + kGroups` ... below `end`. Loads are not guarded, so that they are in
// flight together: beyond the end the last row, which does not count again.
template <int kGroups, typename Source>
__device__ __forceinline__ void add_rows(
    const Source& source, std::int64_t row, std::int64_t end, std::int64_t column,
    typename Source::Sum (&sums)[Source::kSums][Source::kSize]) {
  constexpr int kRows = Source::kRowsAtOnce;
  for (; row < end; row += kRows * kGroups) {
    typename Source::Loaded loaded[kRows];
#pragma unroll
    for (int r = 0; r < kRows; ++r)
      loaded[r] = source.load(min(row + r * kGroups, end - 1), column);
#pragma unroll
    for (int r = 0; r < kRows; ++r) source.add(loaded[r], row + r * kGroups < end, sums);
  }
}

// The sum of one entry over all `parts` of it in shared memory.
template <int kParts, int kEntries, typename Sum>
__device__ __forceinline__ Sum over_parts(const Sum (&shared)[kParts][kEntries], int entry) {
  Sum sum = shared[0][entry];
#pragma unroll
  for (int part = 1; part < kParts; ++part) sum += shared[part][entry];
  return sum;
}

// Whether all blocks of the tile have written what they wrote before. All threads call.
__device__ __forceinline__ bool is_last_of_tile(std::uint32_t* finished) {
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

// Without a minimum of blocks in the launch bounds ptxas takes few registers and puts the loads one
// after the other.
template <int kLanes, typename Source, typename Sink>
__global__ void __launch_bounds__(kColumnThreads, ColumnSums::kBlocksOfProcessor)
    sum_columns(Source source, Sink sink, std::int64_t rows, std::int64_t columns,
                std::int64_t chunk_rows, void* scratch, std::uint32_t* finished) {
  using Sum = typename Source::Sum;
  constexpr int kSize = Source::kSize, kSums = Source::kSums;
  constexpr int kGroups = kColumnThreads / kLanes, kWidth = kLanes * kSize;
  constexpr int kEntries = kSums * kWidth;  // entry: sum x kWidth + column of the tile
  // Threads per entry when chunks are added.
  constexpr int kParts = kEntries < kColumnThreads ? kColumnThreads / kEntries : 1;
  static_assert(kGroups >= kParts);
  __shared__ Sum shared[kGroups][kEntries];
  const int thread = static_cast<int>(threadIdx.x);
  const int lane = thread % kLanes, group = thread / kLanes;
  const std::int64_t tile = std::int64_t{blockIdx.x} * kWidth;
  const std::int64_t begin = std::int64_t{blockIdx.y} * chunk_rows;
  Sum sums[kSums][kSize] = {};
  if (tile + lane * kSize < columns)
    add_rows<kGroups>(source, begin + group, min(begin + chunk_rows, rows), tile + lane * kSize,
                      sums);
#pragma unroll
  for (int sum = 0; sum < kSums; ++sum)
#pragma unroll
    for (int j = 0; j < kSize; ++j) shared[group][sum * kWidth + lane * kSize + j] = sums[sum][j];
  __syncthreads();
  auto* partial = static_cast<Sum*>(scratch);
  const auto column_of = [&](int entry) { return tile + entry % kWidth; };
  const auto place_of = [&](unsigned chunk, int entry) {
    return (std::int64_t{chunk} * kSums + entry / kWidth) * columns + column_of(entry);
  };
  for (int entry = thread; entry < kEntries; entry += kColumnThreads) {
    if (column_of(entry) >= columns) continue;
    const Sum sum = over_parts(shared, entry);
    if (gridDim.y == 1)
      sink.store(entry / kWidth, column_of(entry), sum);
    else
      partial[place_of(blockIdx.y, entry)] = sum;
  }
  if (gridDim.y == 1 || !is_last_of_tile(finished + blockIdx.x)) return;
  Sum(&parts)[kParts][kEntries] = reinterpret_cast<Sum(&)[kParts][kEntries]>(shared);
  for (int at = thread; at < kParts * kEntries; at += kColumnThreads) {
    const int entry = at % kEntries;
    Sum sum = 0;
    if (column_of(entry) < columns) {
#pragma unroll 8
      for (unsigned chunk = at / kEntries; chunk < gridDim.y; chunk += kParts)
        sum += __ldcg(partial + place_of(chunk, entry));  // of other processors: not from L1
    }
    parts[at / kEntries][entry] = sum;
  }
  __syncthreads();
  for (int entry = thread; entry < kEntries; entry += kColumnThreads)
    if (column_of(entry) < columns)
      sink.store(entry / kWidth, column_of(entry), over_parts(parts, entry));
}

// `scratch`: ColumnSums::kScratchBytes of the compute queue, for instance its workspace.
// `finished`: one per tile, 0 before and after every launch: the chunks of the tile that are
// summed.
template <typename Source, typename Sink>
cudaError_t enqueue_column_sums(const Source& source, const Sink& sink, std::int64_t rows,
                                std::int64_t columns, void* scratch, std::uint32_t* finished,
                                cudaStream_t stream) {
  static_assert(Source::kSums <= ColumnSums::kMostSums);
  static_assert(Source::kSize * sizeof(typename Source::Sum) <= ColumnSums::kMostBytes);
  if (columns == 0) return cudaSuccess;
  const ColumnSums plan(rows, columns, Source::kSize);
  const dim3 grid(static_cast<unsigned>(plan.tiles), static_cast<unsigned>(plan.chunks));
  const auto start = [&](auto* kernel) {
    kernel<<<grid, kColumnThreads, 0, stream>>>(source, sink, rows, columns, plan.chunk_rows,
                                                scratch, finished);
    return cudaGetLastError();
  };
  if constexpr (Source::kSize > 1)
    if (plan.lanes == ColumnSums::kNarrow)
      return start(sum_columns<ColumnSums::kNarrow, Source, Sink>);
  return start(sum_columns<ColumnSums::kWide, Source, Sink>);
}

}  // namespace sextant
