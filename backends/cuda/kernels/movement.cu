// Moves: 256 threads a block, four elements a thread, loads of all four before the first store.
// Elements are as wide as the box allows, up to 16 bytes. Transposed ones go through tiles of
// shared memory, so that both sides are read and written along their rows.
#include "backends/cuda/kernels/elements.cuh"
#include "backends/cuda/kernels/movement.h"

namespace sextant {
namespace {

constexpr int kThreads = 256;
constexpr int kPerThread = 4;
constexpr std::int64_t kMostBlocks = 0x7FFFFFFF;

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

// Sums of integers wrap around; of bool they are "or".
template <typename T>
__global__ void __launch_bounds__(kThreads) add_elements(const __grid_constant__ CudaMove move) {
  const auto* from = static_cast<const T*>(move.from);
  auto* to = static_cast<T*>(move.to);
  const std::int64_t stride = std::int64_t{gridDim.x} * kThreads;
  for (std::int64_t element = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
       element < move.elements; element += stride) {
    const Place place =
        move.is_small ? place_of<true>(move, element) : place_of<false>(move, element);
    to[place.to] = narrow<T>(widen(to[place.to]) + widen(from[place.from]));
  }
}

// A tile of kSide x kSide elements: rows along `tiled_dim`, columns along the last dim.
constexpr int kLanes = 32, kRowsAtOnce = 8;

template <typename T>
__global__ void __launch_bounds__(kLanes* kRowsAtOnce)
    move_tiles(const __grid_constant__ CudaMove move) {
  constexpr int kSide = sizeof(T) <= 2 ? 64 : 32;
  // An odd number of words between rows: the elements of a column lie in different banks.
  constexpr int kPitch = kSide + (sizeof(T) < 4 ? 4 / static_cast<int>(sizeof(T)) : 1);
  __shared__ T tile[kSide][kPitch];
  const CudaDim& columns = move.dims[move.rank - 1];
  const CudaDim& rows = move.dims[move.tiled_dim];
  const std::int64_t tiles_across = (columns.extent + kSide - 1) / kSide;
  const std::int64_t tiles_down = (rows.extent + kSide - 1) / kSide;
  const std::int64_t per_batch = tiles_across * tiles_down;
  const std::int64_t tiles = move.elements / (columns.extent * rows.extent) * per_batch;
  for (std::int64_t at = blockIdx.x; at < tiles; at += gridDim.x) {
    std::int64_t batch = at / per_batch;
    const std::int64_t in_batch = at - batch * per_batch;
    const std::int64_t row0 = in_batch / tiles_across * kSide;
    const std::int64_t column0 = in_batch % tiles_across * kSide;
    std::int64_t from = row0 * rows.from + column0 * columns.from;
    std::int64_t to = row0 * rows.to + column0 * columns.to;
    for (int dim = move.rank - 2; dim >= 0; --dim) {
      if (dim == move.tiled_dim) continue;
      const std::int64_t index = batch % move.dims[dim].extent;
      batch /= move.dims[dim].extent;
      from += index * move.dims[dim].from;
      to += index * move.dims[dim].to;
    }
    const std::int64_t rows_here = rows.extent - row0, columns_here = columns.extent - column0;
    const T* source = static_cast<const T*>(move.from) + from;
    for (int column = threadIdx.y; column < kSide && column < columns_here; column += kRowsAtOnce)
      for (int row = threadIdx.x; row < kSide && row < rows_here; row += kLanes)
        tile[row][column] = source[column * columns.from + row];  // rows.from is 1
    __syncthreads();
    T* target = static_cast<T*>(move.to) + to;
    for (int row = threadIdx.y; row < kSide && row < rows_here; row += kRowsAtOnce)
      for (int column = threadIdx.x; column < kSide && column < columns_here; column += kLanes)
        target[row * rows.to + column] = tile[row][column];  // columns.to is 1
    __syncthreads();
  }
}

unsigned limited(std::int64_t blocks) {
  return static_cast<unsigned>(blocks < kMostBlocks ? blocks : kMostBlocks);
}

template <typename T>
void start_tiles(const CudaMove& move, cudaStream_t stream) {
  constexpr int kSide = sizeof(T) <= 2 ? 64 : 32;
  const auto tiles_of = [](const CudaDim& dim) { return (dim.extent + kSide - 1) / kSide; };
  const CudaDim &columns = move.dims[move.rank - 1], &rows = move.dims[move.tiled_dim];
  const std::int64_t tiles =
      move.elements / (columns.extent * rows.extent) * tiles_of(columns) * tiles_of(rows);
  move_tiles<T><<<limited(tiles), dim3(kLanes, kRowsAtOnce), 0, stream>>>(move);
}

template <int kBytes>
void start_move(const CudaMove& move, cudaStream_t stream) {
  using T = typename Unit<kBytes>::Type;
  if constexpr (kBytes < 16) {
    if (move.tiled_dim >= 0) return start_tiles<T>(move, stream);
  }
  constexpr std::int64_t kPerBlock = kThreads * kPerThread;
  const unsigned blocks = limited((move.elements + kPerBlock - 1) / kPerBlock);
  if (move.is_small)
    move_elements<T, true><<<blocks, kThreads, 0, stream>>>(move);
  else
    move_elements<T, false><<<blocks, kThreads, 0, stream>>>(move);
}

struct StartAdd {
  const CudaMove& move;
  cudaStream_t stream;
  template <typename T>
  cudaError_t operator()() const {
    constexpr std::int64_t kMostAddBlocks = 1 << 16;
    const std::int64_t wanted = (move.elements + kThreads - 1) / kThreads;
    const auto blocks = static_cast<unsigned>(wanted < kMostAddBlocks ? wanted : kMostAddBlocks);
    add_elements<T><<<blocks, kThreads, 0, stream>>>(move);
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
