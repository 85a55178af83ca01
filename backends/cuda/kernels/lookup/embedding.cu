// Embedding and its gradient.
//
// The gradient is a sum per row of the table, without atomics in floating point: positions are
// sorted by row (count, place, scatter; atomics on integers decide only where a list lies, not what
// comes out), then a warp adds the rows of dy that belong to a row of the table, in ascending
// order, and writes it once, zeros included. Rows that are looked up more than 32 times get a block
// each, so that one frequent token does not hold up the rest.
#include "backends/cuda/kernels/lookup/embedding.h"
#include "backends/cuda/kernels/shared/grid.h"
#include "backends/cuda/kernels/shared/put.cuh"
#include "backends/cuda/kernels/shared/reduce.cuh"

#include <algorithm>

namespace sextant {
namespace {

constexpr int kThreads = 256;
constexpr int kShortList = kWarp;
constexpr int kTilesOfWarp = 4;
constexpr int kLongWarps = 16;
constexpr int kLongBlocks = 128;    // of the grid's second dim
constexpr int kWindowWords = 2048;  // positions are sorted 65,536 at a time

__device__ __forceinline__ std::int64_t id_of(const IdArguments& ids, std::int64_t i) {
  return ids.is_wide ? static_cast<const std::int64_t*>(ids.ids)[i]
                     : static_cast<const std::int32_t*>(ids.ids)[i];
}

// A thread copies `kWidth` elements: a pack or one.
template <typename T, int kWidth>
__global__ void __launch_bounds__(kThreads) look_up(EmbeddingArguments a) {
  struct alignas(sizeof(T) * kWidth) Part {
    T values[kWidth];
  };
  const std::int64_t parts = a.width / kWidth, all = a.ids.count * parts;
  const std::int64_t stride = std::int64_t{gridDim.x} * kThreads;
  for (std::int64_t at = std::int64_t{blockIdx.x} * kThreads + threadIdx.x; at < all;
       at += stride) {
    const std::int64_t i = all <= UINT32_MAX
                               ? static_cast<std::uint32_t>(at) / static_cast<std::uint32_t>(parts)
                               : at / parts;
    const std::int64_t part = at - i * parts, id = id_of(a.ids, i), row = id - a.ids.first;
    const bool is_here = row >= 0 && row < a.ids.rows;
    if (!is_here && part == 0 && (id < 0 || id >= a.all_rows) && a.fault != nullptr) *a.fault = 1;
    Part value = {};
    if (is_here) value = static_cast<const Part*>(a.table)[row * parts + part];
    Part* out = static_cast<Part*>(a.y) + at;
    if (a.adds) {
      const Part present = *out;
#pragma unroll
      for (int j = 0; j < kWidth; ++j)
        value.values[j] = narrow<T>(widen(present.values[j]) + widen(value.values[j]));
    }
    *out = value;
  }
}

// Positions by row of the table.
struct Lists {
  std::int32_t *counts, *num_placed, *num_long;  // by row, and two numbers; zero at the beginning
  std::int32_t *starts, *long_rows;              // by row, in any order
  std::int32_t *slots, *unsorted, *sorted;       // by position

  Lists(void* scratch, std::int64_t rows, std::int64_t positions) {
    auto* next = static_cast<std::int32_t*>(scratch);
    const auto take = [&next](std::int64_t count) {
      std::int32_t* taken = next;
      next += count;
      return taken;
    };
    counts = take(rows);
    num_placed = take(1);
    num_long = take(1);
    starts = take(rows);
    long_rows = take(positions / kShortList + 1);
    slots = take(positions);
    unsorted = take(positions);
    sorted = take(positions);
  }
};

__global__ void __launch_bounds__(kThreads) count_positions(IdArguments ids, Lists lists) {
  const std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i >= ids.count) return;
  const std::int64_t row = id_of(ids, i) - ids.first;
  if (row >= 0 && row < ids.rows) lists.slots[i] = atomicAdd(&lists.counts[row], 1);
}

// Room for the list of every row, in any order.
__global__ void __launch_bounds__(kThreads) place_lists(IdArguments ids, Lists lists) {
  const std::int64_t row = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const std::int32_t count = row < ids.rows ? lists.counts[row] : 0;
  std::int32_t up_to = count;
#pragma unroll
  for (int distance = 1; distance < kWarp; distance *= 2) {
    const std::int32_t before = __shfl_up_sync(0xFFFFFFFFu, up_to, distance);
    if (lane >= distance) up_to += before;
  }
  std::int32_t first = 0;
  if (lane == kWarp - 1 && up_to > 0) first = atomicAdd(lists.num_placed, up_to);
  first = __shfl_sync(0xFFFFFFFFu, first, kWarp - 1);
  if (row < ids.rows) lists.starts[row] = first + up_to - count;
  if (count > kShortList)
    lists.long_rows[atomicAdd(lists.num_long, 1)] = static_cast<std::int32_t>(row);
}

__global__ void __launch_bounds__(kThreads) fill_lists(IdArguments ids, Lists lists) {
  const std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i >= ids.count) return;
  const std::int64_t row = id_of(ids, i) - ids.first;
  if (row >= 0 && row < ids.rows)
    lists.unsorted[lists.starts[row] + lists.slots[i]] = static_cast<std::int32_t>(i);
}

// Sum of one value per thread over the threads before it.
__device__ std::int32_t sum_before(std::int32_t own) {
  __shared__ std::int32_t up_to[kThreads];
  up_to[threadIdx.x] = own;
  __syncthreads();
  for (unsigned distance = 1; distance < kThreads; distance *= 2) {
    const std::int32_t before = threadIdx.x >= distance ? up_to[threadIdx.x - distance] : 0;
    __syncthreads();
    up_to[threadIdx.x] += before;
    __syncthreads();
  }
  const std::int32_t before = up_to[threadIdx.x] - own;
  __syncthreads();
  return before;
}

// A window of positions becomes a set of bits, which is read in order.
__global__ void __launch_bounds__(kThreads) sort_long_lists(IdArguments ids, Lists lists) {
  constexpr int kWordsOfThread = kWindowWords / kThreads;
  __shared__ std::uint32_t bits[kWindowWords];
  __shared__ std::int32_t in_window;
  for (int list = static_cast<int>(blockIdx.x); list < *lists.num_long;
       list += static_cast<int>(gridDim.x)) {
    const std::int32_t row = lists.long_rows[list];
    const std::int32_t count = lists.counts[row], start = lists.starts[row];
    std::int32_t done = 0;
    for (std::int64_t window = 0; window < ids.count; window += 32 * kWindowWords) {
      for (int word = static_cast<int>(threadIdx.x); word < kWindowWords; word += kThreads)
        bits[word] = 0;
      __syncthreads();
      for (std::int32_t i = static_cast<std::int32_t>(threadIdx.x); i < count; i += kThreads) {
        const std::int64_t bit = lists.unsorted[start + i] - window;
        if (bit >= 0 && bit < 32 * kWindowWords) atomicOr(&bits[bit / 32], 1u << (bit % 32));
      }
      __syncthreads();
      std::int32_t own = 0;
      const int first_word = static_cast<int>(threadIdx.x) * kWordsOfThread;
      for (int word = first_word; word < first_word + kWordsOfThread; ++word)
        own += __popc(bits[word]);
      std::int32_t at = start + done + sum_before(own);
      if (threadIdx.x == kThreads - 1) in_window = at + own - start - done;
      for (int word = first_word; word < first_word + kWordsOfThread; ++word)
        for (std::uint32_t rest = bits[word]; rest != 0; rest &= rest - 1)
          lists.sorted[at++] = static_cast<std::int32_t>(window + word * 32 + __ffs(rest) - 1);
      __syncthreads();
      done += in_window;
    }
  }
}

template <typename T, int kWidth>
__device__ __forceinline__ void add_part(const EmbeddingGradArguments& a, std::int64_t position,
                                         std::int64_t column, Wide<T> (&sums)[kWidth]) {
  struct alignas(sizeof(T) * kWidth) Part {
    T values[kWidth];
  };
  const auto part =
      *reinterpret_cast<const Part*>(static_cast<const T*>(a.dy) + position * a.width + column);
#pragma unroll
  for (int j = 0; j < kWidth; ++j) sums[j] += widen(part.values[j]);
}

template <typename W, int kWidth>
__device__ __forceinline__ void store_part(const EmbeddingGradArguments& a, std::int64_t row,
                                           std::int64_t column, const W (&sums)[kWidth]) {
  const std::int64_t at = row * a.width + column;
  if constexpr (kWidth % 4 == 0) {
    if (a.table_dtype == DType::kF32) {
      auto* out = reinterpret_cast<float4*>(static_cast<float*>(a.table) + at);
#pragma unroll
      for (int j = 0; j < kWidth / 4; ++j) {
        float4 value = a.adds ? out[j] : float4{0, 0, 0, 0};
        value.x += sums[4 * j];
        value.y += sums[4 * j + 1];
        value.z += sums[4 * j + 2];
        value.w += sums[4 * j + 3];
        out[j] = value;
      }
      return;
    }
  }
#pragma unroll
  for (int j = 0; j < kWidth; ++j) put_as(a.table_dtype, a.table, at + j, a.adds, sums[j]);
}

// A warp per row and group of columns: four tiles of 32 x kWidth, whose loads and stores are in
// flight together; most rows of a large vocabulary are nothing but stores of zeros.
template <typename T, int kWidth>
__global__ void __launch_bounds__(kThreads)
    sum_short_lists(EmbeddingGradArguments a, Lists lists, std::int64_t groups) {
  constexpr int kTile = kWarp * kWidth;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const std::int64_t items = a.ids.rows * groups;
  const std::int64_t warps = std::int64_t{gridDim.x} * (kThreads / kWarp);
  for (std::int64_t item = (std::int64_t{blockIdx.x} * kThreads + threadIdx.x) / kWarp;
       item < items; item += warps) {
    const std::int64_t row = item / groups;
    const std::int64_t column = (item - row * groups) * kTilesOfWarp * kTile + lane * kWidth;
    const std::int32_t count = lists.counts[row];
    if (count > kShortList || (count == 0 && a.adds)) continue;
    std::int32_t position = INT32_MAX;
    if (lane < count) position = lists.unsorted[lists.starts[row] + lane];
    std::int32_t rank = 0;
    for (int other = 0; other < count; ++other)
      rank += __shfl_sync(0xFFFFFFFFu, position, other) < position ? 1 : 0;
    if (lane >= count) rank = kWarp;
    Wide<T> sums[kTilesOfWarp][kWidth] = {};
    for (int next = 0; next < count; ++next) {
      const unsigned holder = __ballot_sync(0xFFFFFFFFu, rank == next);
      const std::int32_t of = __shfl_sync(0xFFFFFFFFu, position, __ffs(holder) - 1);
#pragma unroll
      for (int tile = 0; tile < kTilesOfWarp; ++tile)
        if (column + tile * kTile < a.width)
          add_part<T, kWidth>(a, of, column + tile * kTile, sums[tile]);
    }
#pragma unroll
    for (int tile = 0; tile < kTilesOfWarp; ++tile)
      if (column + tile * kTile < a.width) store_part(a, row, column + tile * kTile, sums[tile]);
  }
}

// A block per row and 32 x kWidth columns: every warp adds its part of the list.
template <typename T, int kWidth>
__global__ void __launch_bounds__(kLongWarps* kWarp)
    sum_long_lists(EmbeddingGradArguments a, Lists lists) {
  using W = Wide<T>;
  __shared__ W shared[kLongWarps][kWidth][kWarp];
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const std::int64_t column = (std::int64_t{blockIdx.x} * kWarp + lane) * kWidth;
  for (int list = static_cast<int>(blockIdx.y); list < *lists.num_long;
       list += static_cast<int>(gridDim.y)) {
    const std::int32_t row = lists.long_rows[list];
    const std::int64_t count = lists.counts[row];
    const std::int32_t* positions = lists.sorted + lists.starts[row];
    W sums[kWidth] = {};
    if (column < a.width) {
#pragma unroll 4
      for (std::int64_t i = count * warp / kLongWarps; i < count * (warp + 1) / kLongWarps; ++i)
        add_part<T, kWidth>(a, positions[i], column, sums);
    }
#pragma unroll
    for (int j = 0; j < kWidth; ++j) shared[warp][j][lane] = sums[j];
    __syncthreads();
    if (warp == 0 && column < a.width) {
      for (int of = 1; of < kLongWarps; ++of)
#pragma unroll
        for (int j = 0; j < kWidth; ++j) sums[j] += shared[of][j][lane];
      store_part(a, row, column, sums);
    }
    __syncthreads();
  }
}

template <typename T, int kWidth>
cudaError_t start_sums(const EmbeddingGradArguments& a, const Lists& lists, cudaStream_t stream) {
  const std::int64_t tiles = (a.width + kWarp * kWidth - 1) / (kWarp * kWidth);
  const std::int64_t groups = (tiles + kTilesOfWarp - 1) / kTilesOfWarp;
  sum_short_lists<T, kWidth>
      <<<blocks_for(a.ids.rows * groups, kThreads / kWarp), kThreads, 0, stream>>>(a, lists,
                                                                                   groups);
  if (a.ids.count > kShortList) {
    sort_long_lists<<<kLongBlocks, kThreads, 0, stream>>>(a.ids, lists);
    const dim3 grid(static_cast<unsigned>(tiles), kLongBlocks);
    sum_long_lists<T, kWidth><<<grid, kLongWarps * kWarp, 0, stream>>>(a, lists);
  }
  return cudaGetLastError();
}

bool is_packed(const void* data) { return reinterpret_cast<std::uintptr_t>(data) % 16 == 0; }

}  // namespace

cudaError_t enqueue_embedding(const EmbeddingArguments& arguments, cudaStream_t stream) {
  const EmbeddingArguments& a = arguments;
  if (a.ids.count == 0 || a.width == 0) return cudaSuccess;
  return with_floating_type(a.dtype, [&]<typename T>() {
    constexpr int kSize = Pack<T>::kSize;
    if (a.width % kSize == 0 && is_packed(a.table) && is_packed(a.y))
      look_up<T, kSize>
          <<<blocks_for(a.ids.count * a.width / kSize, kThreads), kThreads, 0, stream>>>(a);
    else
      look_up<T, 1><<<blocks_for(a.ids.count * a.width, kThreads), kThreads, 0, stream>>>(a);
    return cudaGetLastError();
  });
}

std::size_t embedding_grad_scratch(const IdArguments& ids) {
  const std::int64_t numbers = 2 * ids.rows + 2 + ids.count / kShortList + 1 + 3 * ids.count;
  return static_cast<std::size_t>(numbers) * sizeof(std::int32_t);
}

cudaError_t enqueue_embedding_grad(const EmbeddingGradArguments& arguments, cudaStream_t stream) {
  const EmbeddingGradArguments& a = arguments;
  if (a.ids.rows == 0 || a.width == 0) return cudaSuccess;
  const Lists lists(a.scratch, a.ids.rows, a.ids.count);
  const auto zeros = static_cast<std::size_t>(a.ids.rows + 2) * sizeof(std::int32_t);
  if (const cudaError_t status = cudaMemsetAsync(lists.counts, 0, zeros, stream);
      status != cudaSuccess)
    return status;
  if (a.ids.count > 0) {
    const unsigned blocks = blocks_for(a.ids.count, kThreads, kGridLimit);
    count_positions<<<blocks, kThreads, 0, stream>>>(a.ids, lists);
    place_lists<<<blocks_for(a.ids.rows, kThreads, kGridLimit), kThreads, 0, stream>>>(a.ids,
                                                                                       lists);
    fill_lists<<<blocks, kThreads, 0, stream>>>(a.ids, lists);
  }
  return with_floating_type(a.dtype, [&]<typename T>() {
    constexpr int kSize = Pack<T>::kSize;
    if (a.width % kSize == 0 && is_packed(a.dy) && is_packed(a.table))
      return start_sums<T, kSize>(a, lists, stream);
    return start_sums<T, 1>(a, lists, stream);
  });
}

}  // namespace sextant
