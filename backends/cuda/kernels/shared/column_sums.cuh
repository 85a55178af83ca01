// Sums over the rows of [rows, columns], column by column, in one launch and a fixed order. A block
// sums a chunk of the rows of a tile of columns: 8 lanes of 16 bytes (or 32 lanes) along a row, the
// other threads along the rows, several rows of each in flight all the time. Then the chunks of a
// tile are added, in their order whichever block is last:
// - where 12 to 28 tiles fill the card (of two sums 20 to 28) and rows are 2,048 or more, they are
//   clusters of 8 blocks of 512, which read each other's shared memory;
// - else they are blocks of 256, and the one of a tile that comes last adds what all have stored.
//   Narrow tiles leave it few chunks to add: two launches with tiles of 512 bytes took 15.8 us for
//   one sum of [16384, 1024] bf16, half the rate of a copy. Few rows of very many columns are not
//   cut: a thread adds its columns of all rows.
//
// What is summed is a `Source`:
//   using Sum;                         // type of the sums
//   static constexpr int kSize;        // neighbouring columns of a lane, a power of two; divides
//                                      // `columns`
//   static constexpr int kSums;        // sums per column: 1 or 2
//   static constexpr int kRowsAtOnce;  // rows of a thread in flight
//   struct Loaded;
//   __device__ Loaded load(int64 row, int64 at) const;  // at: row x columns + column
//   __device__ void add(const Loaded&, Sum (&sums)[kSums][kSize]) const;
// where it goes a `Sink`:
//   __device__ void store(int sum, int64 column, Sum value) const;
// Of several matrices of one size both have what the others lack:
//   __device__ void select(int64 matrix);  // of the block, before all else
#pragma once

#include "backends/cuda/kernels/shared/column_sums.h"
#include "backends/cuda/kernels/shared/reduce.cuh"

#include <cuda_runtime.h>

#include <cooperative_groups.h>
#include <cstdint>
#include <type_traits>

namespace sextant {

// kSize neighbouring columns of a row, for a Source: 16 bytes as words (elements.cuh: unpack), else
// as they are.
template <typename T, int kSize>
struct Columns {
  static constexpr bool kIsPack = kSize == Pack<T>::kSize && sizeof(T) <= sizeof(float);
  std::conditional_t<kIsPack, uint4, Values<T, kSize>> data;

  __device__ __forceinline__ void widen_to(Wide<T> (&values)[kSize]) const {
    if constexpr (kIsPack) {
      unpack<T>(data, values);
    } else {
#pragma unroll
      for (int j = 0; j < kSize; ++j) values[j] = widen(data.values[j]);
    }
  }
};
template <int kSize, typename T>
__device__ __forceinline__ Columns<T, kSize> columns_at(const T* from) {
  return *reinterpret_cast<const Columns<T, kSize>*>(from);
}

// A tile of columns summed by a block of kThreads. Its sums are entries: of neighbouring columns
// one behind the other, or, of narrow tiles, (sum x kSize + column of the lane) x kLanes + lane, so
// that the lanes of a warp write to banks of their own.
template <typename Source, int kThreadsOf, int kLanesOf>
struct ColumnTile {
  using Sum = typename Source::Sum;
  static constexpr int kThreads = kThreadsOf, kLanes = kLanesOf;
  static constexpr int kSize = Source::kSize, kSums = Source::kSums;
  static constexpr int kGroups = kThreads / kLanes, kWidth = kLanes * kSize;
  static constexpr int kEntries = kSums * kWidth;
  // Threads per entry when groups or chunks are added.
  static constexpr int kParts = kEntries < kThreads ? kThreads / kEntries : 1;
  static constexpr bool kIsNarrow = kLanes < kWarp;
  static constexpr int kPad = kIsNarrow ? kLanes : 0;
  static constexpr int kTurns = kParts * kEntries / kThreads;
  static_assert(kGroups % kParts == 0 && kTurns * kThreads == kParts * kEntries);

  std::int64_t first, columns;  // of the tile, of the matrix

  static __device__ __forceinline__ int entry_of(int sum, int lane, int j) {
    return sum * kWidth + (kIsNarrow ? j * kLanes + lane : lane * kSize + j);
  }
  __device__ __forceinline__ std::int64_t column_of(int entry) const {
    const int at = entry % kWidth;
    return first + (kIsNarrow ? at % kLanes * kSize + at / kLanes : at);
  }
  template <typename Sink>
  __device__ __forceinline__ void store(const Sink& sink, int entry, Sum value) const {
    if (column_of(entry) < columns) sink.store(entry / kWidth, column_of(entry), value);
  }
};

// The tile of a block, of the matrix that source and sink are told of.
template <typename Tile, typename Source, typename Sink>
__device__ __forceinline__ Tile tile_of_block(Source& source, Sink& sink, std::int64_t columns) {
  std::int64_t number = blockIdx.x;
  if constexpr (requires { source.select(number); }) {
    const std::int64_t of_one = (columns + Tile::kWidth - 1) / Tile::kWidth;
    source.select(number / of_one);
    sink.select(number / of_one);
    number %= of_one;
  }
  return {number * Tile::kWidth, columns};
}

// Adds rows `row`, `row + kGroups` ... below `end`. What has been added makes room for the row that
// comes kRowsAtOnce later.
template <int kGroups, typename Source>
__device__ __forceinline__ void add_rows(
    const Source& source, std::int64_t row, std::int64_t end, std::int64_t columns,
    std::int64_t column, typename Source::Sum (&sums)[Source::kSums][Source::kSize]) {
  constexpr int kRows = Source::kRowsAtOnce;
  if (row >= end) return;
  const auto count = static_cast<int>((end - row + kGroups - 1) / kGroups);
  std::int64_t at = row * columns + column;
  const std::int64_t step = kGroups * columns;
  typename Source::Loaded loaded[kRows];
  const auto load = [&](typename Source::Loaded& to) {
    to = source.load(row, at);
    row += kGroups;
    at += step;
  };
#pragma unroll
  for (int r = 0; r < kRows; ++r)
    if (r < count) load(loaded[r]);
#pragma unroll 1
  for (int left = count; left > 0; left -= kRows) {
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      if (r < left) source.add(loaded[r], sums);
      if (r + kRows < left) load(loaded[r]);
    }
  }
}

// The sums of the block's chunk into `parts`, several for each entry. Ends without a barrier.
template <typename Tile, typename Source>
__device__ __forceinline__ void sum_chunk(
    const Tile& tile, const Source& source, std::int64_t begin, std::int64_t end,
    typename Tile::Sum (&parts)[Tile::kParts][Tile::kEntries]) {
  using Sum = typename Tile::Sum;
  __shared__ Sum groups[Tile::kGroups][Tile::kEntries + Tile::kPad];
  const int thread = static_cast<int>(threadIdx.x);
  const int lane = thread % Tile::kLanes, group = thread / Tile::kLanes;
  const std::int64_t column = tile.first + lane * Tile::kSize;
  Sum sums[Tile::kSums][Tile::kSize] = {};
  if (column < tile.columns)
    add_rows<Tile::kGroups>(source, begin + group, end, tile.columns, column, sums);
#pragma unroll
  for (int sum = 0; sum < Tile::kSums; ++sum)
#pragma unroll
    for (int j = 0; j < Tile::kSize; ++j)
      groups[group][Tile::entry_of(sum, lane, j)] = sums[sum][j];
  __syncthreads();
  constexpr int kGroupsOfPart = Tile::kGroups / Tile::kParts;
#pragma unroll
  for (int turn = 0; turn < Tile::kTurns; ++turn) {
    const int at = turn * Tile::kThreads + thread;
    const int part = at / Tile::kEntries, entry = at % Tile::kEntries;
    Sum sum = 0;
#pragma unroll
    for (int g = 0; g < kGroupsOfPart; ++g) sum += groups[part * kGroupsOfPart + g][entry];
    parts[part][entry] = sum;
  }
}

// The sum of one entry over all parts of it.
template <int kParts, int kEntries, typename Sum>
__device__ __forceinline__ Sum over_parts(const Sum (&parts)[kParts][kEntries], int entry) {
  Sum sum = parts[0][entry];
#pragma unroll
  for (int part = 1; part < kParts; ++part) sum += parts[part][entry];
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
inline constexpr int kColumnThreads = 256;
static_assert(ColumnSums::kWhole == kColumnThreads);
template <int kLanes, typename Source, typename Sink>
__global__ void __launch_bounds__(kColumnThreads, ColumnSums::kBlocksOfProcessor)
    sum_columns(Source source, Sink sink, std::int64_t rows, std::int64_t columns,
                std::int64_t chunk_rows, void* scratch, std::uint32_t* finished) {
  using Tile = ColumnTile<Source, kColumnThreads, kLanes>;
  using Sum = typename Tile::Sum;
  constexpr int kEntries = Tile::kEntries, kParts = Tile::kParts;
  __shared__ Sum parts[kParts][kEntries];
  const int thread = static_cast<int>(threadIdx.x);
  const auto tile = tile_of_block<Tile>(source, sink, columns);
  const std::int64_t begin = std::int64_t{blockIdx.y} * chunk_rows;
  sum_chunk(tile, source, begin, min(begin + chunk_rows, rows), parts);
  __syncthreads();
  // Of the tile: [chunk][entry]
  Sum* partial = static_cast<Sum*>(scratch) + std::int64_t{blockIdx.x} * gridDim.y * kEntries;
  for (int entry = thread; entry < kEntries; entry += kColumnThreads) {
    const Sum sum = over_parts(parts, entry);
    if (gridDim.y == 1)
      tile.store(sink, entry, sum);
    else
      partial[blockIdx.y * kEntries + entry] = sum;
  }
  if (gridDim.y == 1 || !is_last_of_tile(finished + blockIdx.x)) return;
  for (int turn = 0; turn < Tile::kTurns; ++turn) {
    const int at = turn * kColumnThreads + thread, entry = at % kEntries;
    Sum sum = 0;
#pragma unroll 8
    for (unsigned chunk = at / kEntries; chunk < gridDim.y; chunk += kParts)
      sum += __ldcg(partial + chunk * kEntries + entry);  // of other processors: not from L1
    parts[at / kEntries][entry] = sum;
  }
  __syncthreads();
  for (int entry = thread; entry < kEntries; entry += kColumnThreads)
    tile.store(sink, entry, over_parts(parts, entry));
}

// Barriers of a cluster. All threads call. The first one orders shared memory only: a general one
// also waits for whatever is on its way to other processors.
__device__ __forceinline__ void share_with_cluster() {
  asm volatile(
      "fence.release.sync_restrict::shared::cta.cluster;\n\t"
      "barrier.cluster.arrive.relaxed.aligned;\n\t"
      "barrier.cluster.wait.acquire.aligned;" ::
          : "memory");
}
// What others have in shared memory has been read: it may go once all have waited.
__device__ __forceinline__ void arrive_at_end_of_cluster() {
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
}
__device__ __forceinline__ void wait_for_end_of_cluster() {
  asm volatile("barrier.cluster.wait.aligned;" ::: "memory");
}

// A cluster per tile: each of its blocks adds a share of the entries over all parts of all blocks,
// a warp per entry.
inline constexpr int kClusterThreads = 512;
template <typename Source, typename Sink>
__global__ void __launch_bounds__(kClusterThreads, 2)
    sum_columns_in_clusters(Source source, Sink sink, std::int64_t rows, std::int64_t columns,
                            std::int64_t chunk_rows) {
  using Tile = ColumnTile<Source, kClusterThreads, ColumnSums::kNarrow>;
  using Sum = typename Tile::Sum;
  constexpr int kEntries = Tile::kEntries, kParts = Tile::kParts, kBlocks = ColumnSums::kCluster;
  constexpr int kShare = kEntries / kBlocks, kOfLane = kBlocks * kParts / kWarp;
  static_assert(kShare * kBlocks == kEntries && kShare <= kClusterThreads / kWarp);
  static_assert(kOfLane * kWarp == kBlocks * kParts);
  __shared__ Sum parts[kParts][kEntries];
  const auto cluster = cooperative_groups::this_cluster();
  const auto tile = tile_of_block<Tile>(source, sink, columns);
  const std::int64_t begin = std::int64_t{blockIdx.y} * chunk_rows;
  sum_chunk(tile, source, begin, min(begin + chunk_rows, rows), parts);
  share_with_cluster();
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int entry = static_cast<int>(blockIdx.y) * kShare + warp;  // of the first kShare warps
  Sum sum = 0;
  if (warp < kShare) {
#pragma unroll
    for (int i = 0; i < kOfLane; ++i) {
      const int at = i * kWarp + lane;
      sum += *cluster.map_shared_rank(&parts[at / kBlocks][entry], at % kBlocks);
    }
    sum = over_warp(sum, Plus());
  }
  __syncwarp();
  arrive_at_end_of_cluster();
  if (warp < kShare && lane == 0) tile.store(sink, entry, sum);
  __syncwarp();
  wait_for_end_of_cluster();
}

template <typename Source, typename Sink>
cudaError_t enqueue_columns_in_clusters(const Source& source, const Sink& sink, std::int64_t rows,
                                        std::int64_t columns, const ColumnSums& plan,
                                        cudaStream_t stream) {
  cudaLaunchAttribute cluster = {};
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim.x = 1;
  cluster.val.clusterDim.y = ColumnSums::kCluster;
  cluster.val.clusterDim.z = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(static_cast<unsigned>(plan.tiles), ColumnSums::kCluster);
  config.blockDim = dim3(kClusterThreads);
  config.stream = stream;
  config.attrs = &cluster;
  config.numAttrs = 1;
  return cudaLaunchKernelEx(&config, sum_columns_in_clusters<Source, Sink>, source, sink, rows,
                            columns, plan.chunk_rows);
}

// `scratch`: ColumnSums::kScratchBytes of the compute queue, for instance its workspace.
// `finished`: one per tile, 0 before and after every launch: the chunks of the tile that are
// summed.
template <typename Source, typename Sink>
cudaError_t enqueue_column_sums(const Source& source, const Sink& sink, std::int64_t rows,
                                std::int64_t columns, void* scratch, std::uint32_t* finished,
                                cudaStream_t stream, std::int64_t matrices = 1) {
  static_assert(Source::kSums <= ColumnSums::kMostSums);
  static_assert(Source::kSize * sizeof(typename Source::Sum) <= ColumnSums::kMostBytes);
  if (columns == 0) return cudaSuccess;
  const ColumnSums plan(rows, columns, Source::kSize, Source::kSums, matrices);
  const dim3 grid(static_cast<unsigned>(plan.tiles), static_cast<unsigned>(plan.chunks));
  const auto start = [&](auto* kernel) {
    kernel<<<grid, kColumnThreads, 0, stream>>>(source, sink, rows, columns, plan.chunk_rows,
                                                scratch, finished);
    return cudaGetLastError();
  };
  if constexpr (Source::kSize > 1) {
    if (plan.tiles_are_clusters)
      return enqueue_columns_in_clusters(source, sink, rows, columns, plan, stream);
    if (plan.lanes == ColumnSums::kNarrow)
      return start(sum_columns<ColumnSums::kNarrow, Source, Sink>);
    if (plan.lanes == ColumnSums::kWhole)
      return start(sum_columns<ColumnSums::kWhole, Source, Sink>);
  }
  return start(sum_columns<ColumnSums::kWide, Source, Sink>);
}

}  // namespace sextant
