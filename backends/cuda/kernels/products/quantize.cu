// The scale: one pass over packs of 16 bytes, maxima of magnitudes as integers, which order as
// floats do and put NaN on top; the block that arrives last makes the scale, so there is no second
// launch.
//
// The copies: tiles of 128 x 128 elements. A tile is read once in packs of 16 bytes, its rows are
// written from registers as lines of 128 bytes, and its columns pass through shared memory: a
// thread turns 4 columns of 16 rows, so that 8 neighbouring lanes write a line of 128 bytes. The
// word of a row in shared memory is exchanged by the group of rows (swizzled), which keeps both
// sides free of bank conflicts. Where extents are no multiples of 16 or addresses are loose, a
// thread per element does the same.
#include "backends/cuda/kernels/products/quantize.h"
#include "backends/cuda/kernels/shared/eight_bits.cuh"
#include "backends/cuda/kernels/shared/elements.cuh"
#include "backends/cuda/kernels/shared/grid.h"
#include "backends/cuda/kernels/shared/reduce.cuh"

#include <cmath>
#include <cstddef>

namespace sextant {
namespace {

constexpr int kThreads = 256;

// Scales.

using Bits = unsigned long long;

__device__ __forceinline__ Bits magnitude_bits(double x) {
  return __double_as_longlong(x) & 0x7FFFFFFFFFFFFFFFull;
}
__device__ __forceinline__ Bits magnitude_bits(float x) { return __float_as_uint(x) & 0x7FFFFFFFu; }
__device__ __forceinline__ Bits magnitude_bits(__nv_bfloat16 x) {
  return __bfloat16_as_ushort(x) & 0x7FFFu;
}
__device__ __forceinline__ Bits magnitude_bits(__half x) { return __half_as_ushort(x) & 0x7FFFu; }

template <typename T>
__device__ __forceinline__ Wide<T> number_of(Bits bits) {
  if constexpr (std::is_same_v<T, double>)
    return __longlong_as_double(static_cast<long long>(bits));
  else if constexpr (std::is_same_v<T, float>)
    return __uint_as_float(static_cast<unsigned>(bits));
  else if constexpr (std::is_same_v<T, __nv_bfloat16>)
    return __uint_as_float(static_cast<unsigned>(bits) << 16);
  else
    return __half2float(__ushort_as_half(static_cast<unsigned short>(bits)));
}

// Largest magnitude of a word of 32 bits: two of 16 bits at once.
template <typename T>
__device__ __forceinline__ std::uint32_t larger_words(std::uint32_t a, std::uint32_t word) {
  if constexpr (sizeof(T) == 2)
    return __vmaxu2(a, word & 0x7FFF7FFFu);
  else
    return max(a, word & 0x7FFFFFFFu);
}
template <typename T>
__device__ __forceinline__ Bits largest_of_word(std::uint32_t word) {
  return sizeof(T) == 2 ? max(word & 0xFFFFu, word >> 16) : word;
}

// As core/base/elements.h has it; both formats hold 1.75 times a power of two.
template <typename W>
__device__ float step_of(W magnitude, DType to) {
  if (isnan(magnitude) || isinf(magnitude)) return static_cast<float>(magnitude);
  const int largest = to == DType::kE4M3 ? 8 : 15;
  int exponent = -126;
  if (magnitude > W(0)) {
    exponent = ilogb(magnitude) - largest;
    if (magnitude > ldexp(W(1.75), exponent + largest)) ++exponent;
  }
  return ldexpf(1.0f, min(max(exponent, -126), 126));
}

struct LargerBits {
  template <typename W>
  __device__ __forceinline__ W operator()(W a, W b) const {
    return a < b ? b : a;
  }
};

template <typename T>
__global__ void __launch_bounds__(kThreads) quantize_scale(QuantizeScaleArguments a, bool aligned) {
  const auto* x = static_cast<const T*>(a.x);
  const std::int64_t stride = std::int64_t{gridDim.x} * kThreads;
  const std::int64_t thread = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  Bits largest = 0;
  std::int64_t first = 0;
  if constexpr (sizeof(T) <= 4) {
    if (aligned) {
      constexpr int kAtOnce = 4;
      const std::int64_t packs = a.elements / Pack<T>::kSize;
      const auto* words = reinterpret_cast<const uint4*>(x);
      std::uint32_t largest_word = 0;
      for (std::int64_t pack = thread; pack < packs; pack += kAtOnce * stride) {
        uint4 loaded[kAtOnce];
#pragma unroll
        for (int i = 0; i < kAtOnce; ++i) loaded[i] = words[min(pack + i * stride, packs - 1)];
#pragma unroll
        for (int i = 0; i < kAtOnce; ++i) {
          largest_word = larger_words<T>(largest_word, loaded[i].x);
          largest_word = larger_words<T>(largest_word, loaded[i].y);
          largest_word = larger_words<T>(largest_word, loaded[i].z);
          largest_word = larger_words<T>(largest_word, loaded[i].w);
        }
      }
      largest = largest_of_word<T>(largest_word);
      first = packs * Pack<T>::kSize;
    }
  }
  for (std::int64_t i = first + thread; i < a.elements; i += stride)
    largest = LargerBits()(largest, magnitude_bits(x[i]));
  largest = over_warp(largest, LargerBits());
  __shared__ Bits of_warp[kThreads / kWarp];
  if (threadIdx.x % kWarp == 0) of_warp[threadIdx.x / kWarp] = largest;
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (const Bits bits : of_warp) largest = LargerBits()(largest, bits);
  atomicMax(&a.tally->largest, largest);
  __threadfence();
  if (atomicInc(&a.tally->arrived, gridDim.x - 1) != gridDim.x - 1) return;
  __threadfence();
  const float step = step_of(number_of<T>(atomicExch(&a.tally->largest, Bits{0})), a.to);
  a.scale[0] = a.accumulate ? a.scale[0] + step : step;
}

// Copies.

constexpr int kTile = 128;
constexpr int kWordsOfRow = kTile / 4;
constexpr int kRowsOfThread = 16;

// Where the word `word` of row `row` lies.
__device__ __forceinline__ int place_of(int row, int word) {
  return row * kWordsOfRow + (word ^ (4 * (row / kRowsOfThread)));
}

// `kSize` elements in 8 bits: 1 word of 4 or 2 words of 8.
template <typename T, DType kTo>
__device__ __forceinline__ void quantize_pack(uint4 loaded, float factor,
                                              std::uint32_t (&words)[Pack<T>::kSize / 4]) {
  float values[Pack<T>::kSize];
  unpack<T>(loaded, values);
#pragma unroll
  for (int word = 0; word < Pack<T>::kSize / 4; ++word)
    words[word] = pair_of_8_bits<kTo>(values[4 * word] * factor, values[4 * word + 1] * factor) |
                  pair_of_8_bits<kTo>(values[4 * word + 2] * factor, values[4 * word + 3] * factor)
                      << 16;
}

template <typename T, DType kTo, bool kRows, bool kColumns>
__global__ void __launch_bounds__(kThreads) quantize_tiles(QuantizeArguments a) {
  constexpr int kSize = Pack<T>::kSize, kWords = kSize / 4;
  constexpr int kPacksOfRow = kTile / kSize;
  constexpr int kRowsAtOnce = kThreads / kPacksOfRow;
  __shared__ alignas(16) std::uint32_t tile[kColumns ? kTile * kWordsOfRow : 4];
  const std::int64_t tiles_of_row = (a.n + kTile - 1) / kTile;
  // From the end on, which the scale's pass has left in the cache.
  const std::int64_t which = gridDim.x - 1 - blockIdx.x;
  const std::int64_t first_row = which / tiles_of_row * kTile;
  const std::int64_t first_column = which % tiles_of_row * kTile;
  const float factor = 1.0f / a.scale[0];
  const int pack = static_cast<int>(threadIdx.x) % kPacksOfRow;
  const std::int64_t column = first_column + pack * kSize;
  constexpr int kSteps = kTile / kRowsAtOnce;
  constexpr int kAtOnce = 8;
  static_assert(kSteps % kAtOnce == 0);
#pragma unroll
  for (int step = 0; step < kSteps; step += kAtOnce) {
    uint4 loaded[kAtOnce];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const std::int64_t row =
          first_row + (step + i) * kRowsAtOnce + static_cast<int>(threadIdx.x) / kPacksOfRow;
      loaded[i] =
          row < a.m && column < a.n
              ? *reinterpret_cast<const uint4*>(static_cast<const T*>(a.x) + row * a.n + column)
              : uint4{};
    }
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const int row = (step + i) * kRowsAtOnce + static_cast<int>(threadIdx.x) / kPacksOfRow;
      std::uint32_t words[kWords];
      quantize_pack<T, kTo>(loaded[i], factor, words);
      if (kRows && first_row + row < a.m && column < a.n) {
        auto* const to = reinterpret_cast<std::uint32_t*>(static_cast<std::uint8_t*>(a.rows) +
                                                          (first_row + row) * a.n + column);
        if constexpr (kWords == 2)
          *reinterpret_cast<uint2*>(to) = {words[0], words[1]};
        else
          *to = words[0];
      }
      if constexpr (kColumns) {
        std::uint32_t* const to = tile + place_of(row, pack * kWords);
        if constexpr (kWords == 2)
          *reinterpret_cast<uint2*>(to) = {words[0], words[1]};
        else
          *to = words[0];
      }
    }
  }
  if constexpr (kColumns) {
    __syncthreads();
    const int group = static_cast<int>(threadIdx.x) % (kTile / kRowsOfThread);
    const int word = static_cast<int>(threadIdx.x) / (kTile / kRowsOfThread);
    const std::int64_t row = first_row + group * kRowsOfThread;
    const std::int64_t first = first_column + 4 * word;
    std::uint32_t turned[4][4];  // by column, words of 4 rows
#pragma unroll
    for (int quarter = 0; quarter < 4; ++quarter) {
      std::uint32_t rows[4];
#pragma unroll
      for (int i = 0; i < 4; ++i)
        rows[i] = tile[place_of(group * kRowsOfThread + 4 * quarter + i, word)];
      const std::uint32_t low01 = __byte_perm(rows[0], rows[1], 0x5140),
                          high01 = __byte_perm(rows[0], rows[1], 0x7362),
                          low23 = __byte_perm(rows[2], rows[3], 0x5140),
                          high23 = __byte_perm(rows[2], rows[3], 0x7362);
      turned[0][quarter] = __byte_perm(low01, low23, 0x5410);
      turned[1][quarter] = __byte_perm(low01, low23, 0x7632);
      turned[2][quarter] = __byte_perm(high01, high23, 0x5410);
      turned[3][quarter] = __byte_perm(high01, high23, 0x7632);
    }
    if (row < a.m && first < a.n) {
#pragma unroll
      for (int i = 0; i < 4; ++i)
        *reinterpret_cast<uint4*>(static_cast<std::uint8_t*>(a.columns) + (first + i) * a.m +
                                  row) = {turned[i][0], turned[i][1], turned[i][2], turned[i][3]};
    }
  }
}

template <typename T>
__global__ void quantize_elements(QuantizeArguments a) {
  const std::int64_t stride = std::int64_t{gridDim.x} * blockDim.x;
  const auto scale = static_cast<Wide<T>>(a.scale[0]);
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < a.m * a.n;
       i += stride) {
    const auto value = static_cast<float>(widen(static_cast<const T*>(a.x)[i]) / scale);
    const std::uint8_t bits = to_8_bits(a.to, value);
    if (a.rows != nullptr) static_cast<std::uint8_t*>(a.rows)[i] = bits;
    if (a.columns != nullptr) static_cast<std::uint8_t*>(a.columns)[i % a.n * a.m + i / a.n] = bits;
  }
}

bool is_aligned(const void* data) { return reinterpret_cast<std::uintptr_t>(data) % 16 == 0; }

template <typename T, DType kTo>
cudaError_t start_tiles(const QuantizeArguments& a, cudaStream_t stream) {
  const std::int64_t tiles = ((a.m + kTile - 1) / kTile) * ((a.n + kTile - 1) / kTile);
  const auto blocks = static_cast<unsigned>(tiles);
  if (a.columns == nullptr)
    quantize_tiles<T, kTo, true, false><<<blocks, kThreads, 0, stream>>>(a);
  else if (a.rows == nullptr)
    quantize_tiles<T, kTo, false, true><<<blocks, kThreads, 0, stream>>>(a);
  else
    quantize_tiles<T, kTo, true, true><<<blocks, kThreads, 0, stream>>>(a);
  return cudaGetLastError();
}

bool suits_tiles(const QuantizeArguments& a) {
  const std::int64_t tiles = ((a.m + kTile - 1) / kTile) * ((a.n + kTile - 1) / kTile);
  return a.from != DType::kF64 && a.m % kRowsOfThread == 0 && a.n % 16 == 0 && is_aligned(a.x) &&
         is_aligned(a.rows) && is_aligned(a.columns) && tiles <= kGridLimit;
}

}  // namespace

cudaError_t enqueue_quantize_scale(const QuantizeScaleArguments& arguments, cudaStream_t stream) {
  constexpr std::int64_t kOfThread = 32;  // elements
  const unsigned blocks =
      arguments.elements == 0
          ? 1
          : blocks_for(arguments.elements, kThreads * kOfThread, 8 * kProcessors);
  return with_floating_type(arguments.from, [&]<typename T>() {
    quantize_scale<T><<<blocks, kThreads, 0, stream>>>(arguments, is_aligned(arguments.x));
    return cudaGetLastError();
  });
}

cudaError_t enqueue_quantize(const QuantizeArguments& arguments, cudaStream_t stream) {
  if (arguments.m * arguments.n == 0) return cudaSuccess;
  return with_floating_type(arguments.from, [&]<typename T>() {
    if constexpr (!std::is_same_v<T, double>) {
      if (suits_tiles(arguments))
        return arguments.to == DType::kE4M3 ? start_tiles<T, DType::kE4M3>(arguments, stream)
                                            : start_tiles<T, DType::kE5M2>(arguments, stream);
    }
    quantize_elements<T>
        <<<blocks_for(arguments.m * arguments.n, kThreads), kThreads, 0, stream>>>(arguments);
    return cudaGetLastError();
  });
}

}  // namespace sextant
