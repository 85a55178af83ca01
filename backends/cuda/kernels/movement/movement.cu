// Moves: 256 threads a block, four elements a thread, loads of all four before the first store.
// Elements are as wide as the box allows, up to 16 bytes. Transposed ones go through tiles of
// shared memory, so that both sides are read and written along their rows.
#include "backends/cuda/kernels/movement/movement.h"
#include "backends/cuda/kernels/shared/elements.cuh"
#include "backends/cuda/kernels/shared/grid.h"
#include "backends/cuda/kernels/shared/reduce.cuh"

namespace sextant {
namespace {

constexpr int kThreads = 256;
constexpr int kPerThread = 4;

template <int kBytes>
struct Unit;
template <>
struct Unit<1> {
  using Type = std::uint8_t;
};
template <>
struct Unit<2> {
  using Type = std::uint16_t;
};
template <>
struct Unit<4> {
  using Type = std::uint32_t;
};
template <>
struct Unit<8> {
  using Type = std::uint64_t;
};
template <>
struct Unit<16> {
  using Type = uint4;
};

struct Place {
  std::int64_t from = 0, to = 0;
};

// kIsSmall: fewer than 2^31 elements.
template <bool kIsSmall>
__device__ __forceinline__ Place place_of(const CudaMove& move, std::int64_t element) {
  Place place;
  if constexpr (kIsSmall) {
    auto rest = static_cast<std::uint32_t>(element);
    for (int dim = move.rank - 1; dim > 0; --dim) {
      const std::uint32_t quotient = move.dims[dim].divisor.quotient(rest);
      const std::int64_t at = rest - quotient * move.dims[dim].divisor.by;
      place.from += at * move.dims[dim].from;
      place.to += at * move.dims[dim].to;
      rest = quotient;
    }
    element = rest;
  } else {
    for (int dim = move.rank - 1; dim > 0; --dim) {
      const std::int64_t quotient = element / move.dims[dim].extent;
      const std::int64_t at = element - quotient * move.dims[dim].extent;
      place.from += at * move.dims[dim].from;
      place.to += at * move.dims[dim].to;
      element = quotient;
    }
  }
  place.from += element * move.dims[0].from;
  place.to += element * move.dims[0].to;
  return place;
}

template <typename T, bool kIsSmall>
__global__ void __launch_bounds__(kThreads) move_elements(const __grid_constant__ CudaMove move) {
  const auto* from = static_cast<const T*>(move.from);
  auto* to = static_cast<T*>(move.to);
  constexpr std::int64_t kPerBlock = kThreads * kPerThread;
  for (std::int64_t first = blockIdx.x * kPerBlock; first < move.elements;
       first += gridDim.x * kPerBlock) {
    T values[kPerThread];
    std::int64_t targets[kPerThread];
#pragma unroll
    for (int k = 0; k < kPerThread; ++k) {
      const std::int64_t element = first + k * kThreads + threadIdx.x;
      targets[k] = -1;
      if (element >= move.elements) continue;
      const Place place = place_of<kIsSmall>(move, element);
      values[k] = from[place.from];
      targets[k] = place.to;
    }
#pragma unroll
    for (int k = 0; k < kPerThread; ++k)
      if (targets[k] >= 0) to[targets[k]] = values[k];
  }
}

__device__ __forceinline__ std::uint64_t repeated(const void* from, std::int64_t at, int bytes) {
  switch (bytes) {
    case 1:
      return static_cast<const std::uint8_t*>(from)[at] * 0x0101010101010101u;
    case 2:
      return static_cast<const std::uint16_t*>(from)[at] * 0x0001000100010001u;
    case 4:
      return static_cast<const std::uint32_t*>(from)[at] * 0x0000000100000001u;
    default:
      return static_cast<const std::uint64_t*>(from)[at];
  }
}

template <bool kIsSmall>
__global__ void __launch_bounds__(kThreads) repeat_elements(const __grid_constant__ CudaMove move) {
  const std::int64_t stride = std::int64_t{gridDim.x} * kThreads;
  for (std::int64_t element = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
       element < move.elements; element += stride) {
    const Place place = place_of<kIsSmall>(move, element);
    const std::uint64_t value = repeated(move.from, place.from, move.repeated_bytes);
    static_cast<ulonglong2*>(move.to)[place.to] = {value, value};
  }
}

// Sums of integers wrap around; of bool they are "or".
template <typename T, typename Combine>
__global__ void __launch_bounds__(kThreads)
    combine_elements(const __grid_constant__ CudaMove move) {
  const Combine combine{};
  const auto* from = static_cast<const T*>(move.from);
  auto* to = static_cast<T*>(move.to);
  const std::int64_t stride = std::int64_t{gridDim.x} * kThreads;
  for (std::int64_t element = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
       element < move.elements; element += stride) {
    const Place place =
        move.is_small ? place_of<true>(move, element) : place_of<false>(move, element);
    to[place.to] = narrow<T>(combine(widen(to[place.to]), widen(from[place.from])));
  }
}

// A tile of kSide x kSide elements: rows along `tiled_dim`, columns along the last dim.
constexpr int kLanes = 32, kRowsAtOnce = 8;

template <typename T>
struct Tile {
  static constexpr int kSide = sizeof(T) <= 2 ? 64 : 32;
  // An odd number of words between rows: the elements of a column lie in different banks.
  static constexpr int kPitch = kSide + (sizeof(T) < 4 ? 4 / static_cast<int>(sizeof(T)) : 1);
  T at[kSide][kPitch];
  static std::int64_t count(const CudaDim& dim) { return (dim.extent + kSide - 1) / kSide; }
};

// Where a tile begins, and how much of it there is.
struct TilePlace {
  std::int64_t from, to;
  int rows, columns;
};

// Divisions in 32 bits where all indices fit: they are most of the work of a block.
template <typename T, typename Index>
__device__ __forceinline__ TilePlace tile_place(const CudaMove& move, Index at) {
  constexpr Index kSide = Tile<T>::kSide;
  const CudaDim& columns = move.dims[move.rank - 1];
  const CudaDim& rows = move.dims[move.tiled_dim];
  const Index across = (static_cast<Index>(columns.extent) + kSide - 1) / kSide;
  const Index down = (static_cast<Index>(rows.extent) + kSide - 1) / kSide;
  const Index line = at / across, column0 = (at - line * across) * kSide;
  Index batch = line / down;
  const Index row0 = (line - batch * down) * kSide;
  TilePlace place;
  place.from = std::int64_t{row0} * rows.from + std::int64_t{column0} * columns.from;
  place.to = std::int64_t{row0} * rows.to + std::int64_t{column0} * columns.to;
  for (int dim = move.rank - 2; dim >= 0; --dim) {
    if (dim == move.tiled_dim) continue;
    const auto extent = static_cast<Index>(move.dims[dim].extent);
    const Index quotient = batch / extent, index = batch - quotient * extent;
    batch = quotient;
    place.from += std::int64_t{index} * move.dims[dim].from;
    place.to += std::int64_t{index} * move.dims[dim].to;
  }
  const std::int64_t rows_left = rows.extent - row0, columns_left = columns.extent - column0;
  place.rows = static_cast<int>(rows_left < kSide ? rows_left : kSide);
  place.columns = static_cast<int>(columns_left < kSide ? columns_left : kSide);
  return place;
}

// to[i][j] = from[j][i] for i below `rows`, j below `columns`; all loads before the first store.
// kIsWhole: both are the side of a tile.
template <typename T, bool kIsWhole, typename From, typename To>
__device__ __forceinline__ void pass(int rows, int columns, const From& from, const To& to) {
  constexpr int kSide = Tile<T>::kSide;
  constexpr int kDown = kSide / kRowsAtOnce, kAcross = kSide / kLanes;
  T values[kDown][kAcross];
#pragma unroll
  for (int i = 0; i < kDown; ++i)
#pragma unroll
    for (int j = 0; j < kAcross; ++j) {
      const int row = static_cast<int>(threadIdx.y) + i * kRowsAtOnce;
      const int column = static_cast<int>(threadIdx.x) + j * kLanes;
      if (kIsWhole || (row < rows && column < columns)) values[i][j] = from(row, column);
    }
#pragma unroll
  for (int i = 0; i < kDown; ++i)
#pragma unroll
    for (int j = 0; j < kAcross; ++j) {
      const int row = static_cast<int>(threadIdx.y) + i * kRowsAtOnce;
      const int column = static_cast<int>(threadIdx.x) + j * kLanes;
      if (kIsWhole || (row < rows && column < columns)) to(row, column, values[i][j]);
    }
}

template <typename T, bool kIsWhole>
__device__ __forceinline__ void move_tile(const CudaMove& move, const TilePlace& place,
                                          Tile<T>& tile) {
  const std::int64_t from_step = move.dims[move.rank - 1].from;  // rows.from is 1
  const std::int64_t to_step = move.dims[move.tiled_dim].to;     // columns.to is 1
  const T* from = static_cast<const T*>(move.from) + place.from;
  T* to = static_cast<T*>(move.to) + place.to;
  pass<T, kIsWhole>(
      place.columns, place.rows,
      [&](int column, int row) { return from[column * from_step + row]; },
      [&](int column, int row, T value) { tile.at[row][column] = value; });
  __syncthreads();
  pass<T, kIsWhole>(
      place.rows, place.columns, [&](int row, int column) { return tile.at[row][column]; },
      [&](int row, int column, T value) { to[row * to_step + column] = value; });
}

template <typename T>
__global__ void __launch_bounds__(kLanes* kRowsAtOnce)
    move_tiles(const __grid_constant__ CudaMove move, std::int64_t tiles) {
  __shared__ Tile<T> tile;
  for (std::int64_t at = blockIdx.x; at < tiles; at += gridDim.x) {
    const TilePlace place = move.is_small ? tile_place<T>(move, static_cast<std::uint32_t>(at))
                                          : tile_place<T>(move, at);
    if (place.rows == Tile<T>::kSide && place.columns == Tile<T>::kSide)
      move_tile<T, true>(move, place, tile);
    else
      move_tile<T, false>(move, place, tile);
    __syncthreads();
  }
}

template <typename T>
void start_tiles(const CudaMove& move, cudaStream_t stream) {
  const CudaDim &columns = move.dims[move.rank - 1], &rows = move.dims[move.tiled_dim];
  const std::int64_t tiles = move.elements / (columns.extent * rows.extent) *
                             Tile<T>::count(columns) * Tile<T>::count(rows);
  move_tiles<T><<<limited(tiles), dim3(kLanes, kRowsAtOnce), 0, stream>>>(move, tiles);
}

template <int kBytes>
void start_move(const CudaMove& move, cudaStream_t stream) {
  using T = typename Unit<kBytes>::Type;
  if constexpr (kBytes < 16) {
    if (move.tiled_dim >= 0) return start_tiles<T>(move, stream);
  }
  constexpr std::int64_t kPerBlock = kThreads * kPerThread;
  const unsigned blocks = blocks_for(move.elements, kPerBlock);
  if (move.is_small)
    move_elements<T, true><<<blocks, kThreads, 0, stream>>>(move);
  else
    move_elements<T, false><<<blocks, kThreads, 0, stream>>>(move);
}

void start_repeat(const CudaMove& move, cudaStream_t stream) {
  const unsigned blocks = blocks_for(move.elements, kThreads);
  if (move.is_small)
    repeat_elements<true><<<blocks, kThreads, 0, stream>>>(move);
  else
    repeat_elements<false><<<blocks, kThreads, 0, stream>>>(move);
}

struct StartAdd {
  const CudaMove& move;
  cudaStream_t stream;
  template <typename T>
  cudaError_t operator()() const {
    constexpr std::int64_t kMostAddBlocks = 1 << 16;
    const unsigned blocks = blocks_for(move.elements, kThreads, kMostAddBlocks);
    switch (move.op) {
      case ReduceOp::kSum:
        combine_elements<T, Plus><<<blocks, kThreads, 0, stream>>>(move);
        break;
      case ReduceOp::kMax:
        combine_elements<T, Larger><<<blocks, kThreads, 0, stream>>>(move);
        break;
      case ReduceOp::kMin:
        combine_elements<T, Smaller><<<blocks, kThreads, 0, stream>>>(move);
        break;
    }
    return cudaGetLastError();
  }
};

// 16 bytes at a time where the address allows it.
__global__ void __launch_bounds__(kThreads) fill_bytes(CudaFill fill, std::int64_t packs) {
  const std::int64_t stride = std::int64_t{gridDim.x} * kThreads;
  const std::int64_t thread = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  const ulonglong2 pack = {fill.pattern, fill.pattern};
  for (std::int64_t i = thread; i < packs; i += stride) static_cast<ulonglong2*>(fill.to)[i] = pack;
  for (std::int64_t i = packs * 16 + thread; i < fill.bytes; i += stride)
    static_cast<std::uint8_t*>(fill.to)[i] =
        static_cast<std::uint8_t>(fill.pattern >> (8 * (i % 8)));
}

}  // namespace

cudaError_t enqueue_move(const CudaMove& move, cudaStream_t stream) {
  if (move.elements == 0) return cudaSuccess;
  if (move.adds) return with_type(move.dtype, StartAdd{move, stream});
  if (move.repeated_bytes > 0) {
    start_repeat(move, stream);
    return cudaGetLastError();
  }
  switch (move.element_bytes) {
    case 1:
      start_move<1>(move, stream);
      break;
    case 2:
      start_move<2>(move, stream);
      break;
    case 4:
      start_move<4>(move, stream);
      break;
    case 8:
      start_move<8>(move, stream);
      break;
    case 16:
      start_move<16>(move, stream);
      break;
    default:
      return cudaErrorInvalidValue;
  }
  return cudaGetLastError();
}

cudaError_t enqueue_fill(const CudaFill& fill, cudaStream_t stream) {
  if (fill.bytes == 0) return cudaSuccess;
  constexpr std::int64_t kMostFillBlocks = 1 << 13;
  const bool is_aligned = reinterpret_cast<std::uintptr_t>(fill.to) % 16 == 0;
  const std::int64_t packs = is_aligned ? fill.bytes / 16 : 0;
  const std::int64_t wanted = ((is_aligned ? packs : fill.bytes) + kThreads) / kThreads;
  const auto blocks = static_cast<unsigned>(wanted < kMostFillBlocks ? wanted : kMostFillBlocks);
  fill_bytes<<<blocks, kThreads, 0, stream>>>(fill, packs);
  return cudaGetLastError();
}

}  // namespace sextant
