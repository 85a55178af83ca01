// Look-ups: 256 threads a block over what is found, words of up to 16 bytes. Their sums: a block
// per row of the table (and 256 columns of it) walks the indices, 256 at a time, and adds the rows
// that are its own in their order; narrow rows have a thread per element of the table. So no
// atomics, at the price of reading the indices once per row of the table, out of the cache.
#include "backends/cuda/kernels/lookup/lookup.h"
#include "backends/cuda/kernels/lookup/matches.cuh"
#include "backends/cuda/kernels/shared/grid.h"
#include "backends/cuda/kernels/shared/numbers.cuh"

namespace sextant {
namespace {

constexpr int kThreads = 256;

// In the box of the table; negative or `table_along` and more where it is not.
__device__ __forceinline__ std::int64_t local_row(const CudaLookup& x, std::int64_t at) {
  const std::int64_t index = x.is_wide ? static_cast<const std::int64_t*>(x.indices)[at]
                                       : static_cast<const std::int32_t*>(x.indices)[at];
  return index - x.offset;
}

__device__ __forceinline__ bool has_row(const CudaLookup& x, std::int64_t row) {
  return row >= 0 && row < x.table_along;
}

// T: a word; x.after counts words.
template <typename T>
__global__ void __launch_bounds__(kThreads) take_words(CudaLookup x) {
  const std::int64_t count = x.before * x.found_along * x.after;
  const std::int64_t stride = std::int64_t{gridDim.x} * kThreads;
  for (std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x; i < count; i += stride) {
    const std::int64_t row_found = i / x.after, column = i - row_found * x.after;
    const std::int64_t before = row_found / x.found_along;
    const std::int64_t row = local_row(x, x.per_element ? i : row_found - before * x.found_along);
    T value = {};
    if (has_row(x, row))
      value = static_cast<const T*>(x.from)[(before * x.table_along + row) * x.after + column];
    static_cast<T*>(x.to)[i] = value;
  }
}

template <typename T>
__global__ void __launch_bounds__(kThreads) take_and_add(CudaLookup x) {
  const std::int64_t count = x.before * x.found_along * x.after;
  const std::int64_t stride = std::int64_t{gridDim.x} * kThreads;
  for (std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x; i < count; i += stride) {
    const std::int64_t row_found = i / x.after, column = i - row_found * x.after;
    const std::int64_t before = row_found / x.found_along;
    const std::int64_t row = local_row(x, x.per_element ? i : row_found - before * x.found_along);
    if (!has_row(x, row)) continue;
    const T value =
        static_cast<const T*>(x.from)[(before * x.table_along + row) * x.after + column];
    T& to = static_cast<T*>(x.to)[i];
    to = narrow<T>(widen(to) + widen(value));
  }
}

struct StartTakeAndAdd {
  const CudaLookup& x;
  cudaStream_t stream;
  template <typename T>
  cudaError_t operator()() const {
    take_and_add<T>
        <<<blocks_for(x.before * x.found_along * x.after, kThreads), kThreads, 0, stream>>>(x);
    return cudaGetLastError();
  }
};

template <typename T>
cudaError_t start_take(CudaLookup x, std::int64_t element_bytes, cudaStream_t stream) {
  x.after = x.after * element_bytes / static_cast<std::int64_t>(sizeof(T));
  take_words<T>
      <<<blocks_for(x.before * x.found_along * x.after, kThreads), kThreads, 0, stream>>>(x);
  return cudaGetLastError();
}

std::int64_t bytes_of(DType dtype) {
  switch (dtype) {
    case DType::kF64:
    case DType::kI64:
      return 8;
    case DType::kF32:
    case DType::kI32:
      return 4;
    case DType::kBF16:
    case DType::kF16:
      return 2;
    case DType::kBool:
    case DType::kE4M3:
    case DType::kE5M2:
    case DType::kU8:
      return 1;
  }
  return 1;
}

// The widest that divides rows and addresses.
std::int64_t word_of(const CudaLookup& x, std::int64_t size) {
  if (x.per_element) return size;
  const auto from = reinterpret_cast<std::uintptr_t>(x.from);
  const auto to = reinterpret_cast<std::uintptr_t>(x.to);
  std::int64_t word = 16;
  const auto fits = [&] {
    const auto unsigned_word = static_cast<std::uintptr_t>(word);
    return x.after * size % word == 0 && from % unsigned_word == 0 && to % unsigned_word == 0;
  };
  while (word > size && !fits()) word /= 2;
  return word;
}

// Wide rows: thread t of a block has columns t, t + 256 ... of kColumns * 256.
constexpr int kColumns = 4;

template <typename T>
__global__ void __launch_bounds__(kThreads) sum_rows(CudaLookup x, std::int64_t tiles) {
  __shared__ MatchList<kThreads> matches;
  const std::int64_t tasks = x.before * x.table_along * tiles;
  for (std::int64_t task = blockIdx.x; task < tasks; task += gridDim.x) {
    const std::int64_t to_row = task / tiles;
    const std::int64_t first_column = (task - to_row * tiles) * kThreads * kColumns + threadIdx.x;
    const std::int64_t before = to_row / x.table_along, row = to_row - before * x.table_along;
    Wide<T> sums[kColumns] = {};
    for (std::int64_t first = 0; first < x.found_along; first += kThreads) {
      const std::int64_t mine = first + threadIdx.x;
      matches.find(mine < x.found_along && local_row(x, mine) == row);
      for (int m = 0; m < matches.count; ++m) {
        const T* from = static_cast<const T*>(x.from) +
                        (before * x.found_along + first + matches.at[m]) * x.after;
#pragma unroll
        for (int c = 0; c < kColumns; ++c)
          if (first_column + c * kThreads < x.after)
            sums[c] += widen(from[first_column + c * kThreads]);
      }
    }
#pragma unroll
    for (int c = 0; c < kColumns; ++c)
      if (first_column + c * kThreads < x.after)
        put_number(x.to_type, x.to, to_row * x.after + first_column + c * kThreads, sums[c],
                   x.accumulate);
  }
}

template <typename T>
__global__ void __launch_bounds__(kThreads) sum_elements(CudaLookup x) {
  const std::int64_t count = x.before * x.table_along * x.after;
  const std::int64_t stride = std::int64_t{gridDim.x} * kThreads;
  for (std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x; i < count; i += stride) {
    const std::int64_t to_row = i / x.after, column = i - to_row * x.after;
    const std::int64_t before = to_row / x.table_along, row = to_row - before * x.table_along;
    Wide<T> sum = 0;
    for (std::int64_t found = 0; found < x.found_along; ++found) {
      const std::int64_t at = (before * x.found_along + found) * x.after + column;
      if (local_row(x, x.per_element ? at : found) == row)
        sum += widen(static_cast<const T*>(x.from)[at]);
    }
    put_number(x.to_type, x.to, i, sum, x.accumulate);
  }
}

struct StartSums {
  const CudaLookup& x;
  cudaStream_t stream;
  template <typename T>
  cudaError_t operator()() const {
    constexpr std::int64_t kNarrow = 32;
    if (x.per_element || x.after < kNarrow) {
      sum_elements<T>
          <<<blocks_for(x.before * x.table_along * x.after, kThreads), kThreads, 0, stream>>>(x);
    } else {
      constexpr std::int64_t kPerTile = kThreads * kColumns;
      const std::int64_t tiles = (x.after + kPerTile - 1) / kPerTile;
      const std::int64_t tasks = x.before * x.table_along * tiles;
      const auto blocks = static_cast<unsigned>(tasks < kMostBlocks ? tasks : kMostBlocks);
      sum_rows<T><<<blocks, kThreads, 0, stream>>>(x, tiles);
    }
    return cudaGetLastError();
  }
};

template <typename T>
__global__ void __launch_bounds__(kThreads) one_hot(CudaOneHot x) {
  const std::int64_t stride = std::int64_t{gridDim.x} * kThreads;
  for (std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x; i < x.count * x.classes;
       i += stride) {
    const std::int64_t at = i / x.classes;
    const std::int64_t index = x.is_wide ? static_cast<const std::int64_t*>(x.indices)[at]
                                         : static_cast<const std::int32_t*>(x.indices)[at];
    const Wide<T> value = index - x.offset == i - at * x.classes ? 1 : 0;
    T& to = static_cast<T*>(x.to)[i];
    to = narrow<T>(x.accumulate ? widen(to) + value : value);
  }
}

struct StartOneHot {
  const CudaOneHot& x;
  cudaStream_t stream;
  template <typename T>
  cudaError_t operator()() const {
    one_hot<T><<<blocks_for(x.count * x.classes, kThreads), kThreads, 0, stream>>>(x);
    return cudaGetLastError();
  }
};

}  // namespace

cudaError_t enqueue_take(const CudaLookup& lookup, cudaStream_t stream) {
  if (lookup.before * lookup.found_along * lookup.after == 0) return cudaSuccess;
  if (lookup.accumulate) return with_type(lookup.to_type, StartTakeAndAdd{lookup, stream});
  const std::int64_t size = bytes_of(lookup.to_type);
  switch (word_of(lookup, size)) {
    case 1:
      return start_take<std::uint8_t>(lookup, size, stream);
    case 2:
      return start_take<std::uint16_t>(lookup, size, stream);
    case 4:
      return start_take<std::uint32_t>(lookup, size, stream);
    case 8:
      return start_take<std::uint64_t>(lookup, size, stream);
    default:
      return start_take<uint4>(lookup, size, stream);
  }
}

cudaError_t enqueue_put_sums(const CudaLookup& lookup, cudaStream_t stream) {
  if (lookup.before * lookup.table_along * lookup.after == 0) return cudaSuccess;
  return with_floating_type(lookup.from_type, StartSums{lookup, stream});
}

cudaError_t enqueue_one_hot(const CudaOneHot& one_hot, cudaStream_t stream) {
  if (one_hot.count * one_hot.classes == 0) return cudaSuccess;
  return with_type(one_hot.type, StartOneHot{one_hot, stream});
}

}  // namespace sextant
