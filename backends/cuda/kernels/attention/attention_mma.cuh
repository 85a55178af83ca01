// Tiles of 16-bit elements for tensor cores: loads to shared memory, fragments of m16n8k16 products
// and the products themselves. Fragments are those of the PTX ISA: lane l of a warp has, of a
// product of 16 rows and 8 columns, rows l / 4 and l / 4 + 8 and columns 2 (l % 4) and the next.
#pragma once

#include "backends/cuda/kernels/attention/attention.h"
#include "backends/cuda/kernels/shared/elements.cuh"

namespace sextant::attention_mma {

constexpr int kWarps = 4;
constexpr int kThreads = 32 * kWarps;
constexpr int kOwn = 16 * kWarps;  // rows of a block
// Blocks on a multiprocessor at the same time, as registers allow.
template <int padded>
constexpr int kBlocks = padded == 64 ? 3 : 2;

// Rows are 16 bytes longer than their elements, so that eight of them meet different banks.
template <int size>
constexpr int kStride = size + 8;

__device__ __forceinline__ unsigned shared_address(const void* pointer) {
  return static_cast<unsigned>(__cvta_generic_to_shared(pointer));
}

// 16 bytes, or zeros; complete after wait_loads.
__device__ __forceinline__ void load_async(void* to, const void* from, bool is_there) {
  const int bytes = is_there ? 16 : 0;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(shared_address(to)),
               "l"(from), "r"(bytes)
               : "memory");
}
__device__ __forceinline__ void load_async(float* to, const float* from, bool is_there) {
  const int bytes = is_there ? 4 : 0;
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;\n" ::"r"(shared_address(to)),
               "l"(from), "r"(bytes)
               : "memory");
}
__device__ __forceinline__ void end_loads() {
  asm volatile("cp.async.commit_group;\n" ::: "memory");
}
// Until at most `pending` groups are under way.
template <int pending>
__device__ __forceinline__ void wait_loads() {
  asm volatile("cp.async.wait_group %0;\n" ::"n"(pending) : "memory");
}

// Starts to load `rows` rows of `size` elements, of which `valid` are there, to a tile of rows of
// `padded` elements; zeros elsewhere. Addresses are multiples of 16 bytes.
template <int padded, int rows, typename T>
__device__ __forceinline__ void load_tile(T* tile, const T* from, std::int64_t row_stride,
                                          std::int64_t valid, int size) {
  constexpr int kPacks = padded / 8;
#pragma unroll
  for (int i = 0; i < rows * kPacks / kThreads; ++i) {
    const int at = static_cast<int>(threadIdx.x) + i * kThreads;
    const int row = at / kPacks, column = at % kPacks * 8;
    const bool is_there = row < valid && column < size;
    load_async(tile + row * kStride<padded> + column,
               is_there ? from + row * row_stride + column : from, is_there);
  }
}

struct FragmentA {
  unsigned x[4];
};
struct FragmentsB {  // of two products side by side
  unsigned x[4];
};

// A: 16 rows from `row` on, 16 columns from `column` on.
template <int padded, typename T>
__device__ __forceinline__ FragmentA fragment_a(const T* tile, int row, int column) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  FragmentA a;
  asm volatile(
      "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n"
      : "=r"(a.x[0]), "=r"(a.x[1]), "=r"(a.x[2]), "=r"(a.x[3])
      : "r"(shared_address(tile + (row + lane % 16) * kStride<padded> + column + lane / 16 * 8))
      : "memory");
  return a;
}

// B is the transpose of 16 rows of the tile and its columns are summed over: a product with rows.
template <int padded, typename T>
__device__ __forceinline__ FragmentsB fragments_of_rows(const T* tile, int row, int column) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  FragmentsB b;
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n"
               : "=r"(b.x[0]), "=r"(b.x[1]), "=r"(b.x[2]), "=r"(b.x[3])
               : "r"(shared_address(tile + (row + lane / 16 * 8 + lane % 8) * kStride<padded> +
                                    column + lane / 8 % 2 * 8))
               : "memory");
  return b;
}

// B is 16 rows of the tile, which are summed over, and 16 columns.
template <int padded, typename T>
__device__ __forceinline__ FragmentsB fragments_of_columns(const T* tile, int row, int column) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  FragmentsB b;
  asm volatile(
      "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];\n"
      : "=r"(b.x[0]), "=r"(b.x[1]), "=r"(b.x[2]), "=r"(b.x[3])
      : "r"(shared_address(tile + (row + lane % 16) * kStride<padded> + column + lane / 16 * 8))
      : "memory");
  return b;
}

__device__ __forceinline__ void multiply(float (&c)[4], const FragmentA& a, unsigned b0,
                                         unsigned b1, __nv_bfloat16) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, "
      "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\n"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a.x[0]), "r"(a.x[1]), "r"(a.x[2]), "r"(a.x[3]), "r"(b0), "r"(b1));
}
__device__ __forceinline__ void multiply(float (&c)[4], const FragmentA& a, unsigned b0,
                                         unsigned b1, __half) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, "
      "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\n"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a.x[0]), "r"(a.x[1]), "r"(a.x[2]), "r"(a.x[3]), "r"(b0), "r"(b1));
}

// Two values side by side, the first in the low half.
__device__ __forceinline__ unsigned pair(float first, float second, __nv_bfloat16) {
  const __nv_bfloat162 both = __floats2bfloat162_rn(first, second);
  return reinterpret_cast<const unsigned&>(both);
}
__device__ __forceinline__ unsigned pair(float first, float second, __half) {
  const __half2 both = __floats2half2_rn(first, second);
  return reinterpret_cast<const unsigned&>(both);
}

// Sums of 16 rows (of a warp) and `columns` columns.
template <int columns>
struct Sums {
  float x[columns / 8][4] = {};

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (auto& tile : x)
#pragma unroll
      for (float& value : tile) value = 0;
  }
  // += rows of `a` from `row` on, times the transpose of the first `columns` rows of `b`.
  template <int padded, typename T>
  __device__ __forceinline__ void add_rows(const T* a, int row, const T* b) {
#pragma unroll
    for (int k = 0; k < padded; k += 16) {
      const FragmentA left = fragment_a<padded>(a, row, k);
#pragma unroll
      for (int n = 0; n < columns; n += 16) {
        const FragmentsB right = fragments_of_rows<padded>(b, n, k);
        multiply(x[n / 8], left, right.x[0], right.x[1], T{});
        multiply(x[n / 8 + 1], left, right.x[2], right.x[3], T{});
      }
    }
  }
  // += weights times rows of `b`, of which it takes `columns` columns from `first` on.
  template <int padded, int terms, typename T>
  __device__ __forceinline__ void add_weighted(const Sums<terms>& weights, const T* b, int first) {
#pragma unroll
    for (int k = 0; k < terms; k += 16) {
      const auto& low = weights.x[k / 8];
      const auto& high = weights.x[k / 8 + 1];
      const FragmentA left = {{pair(low[0], low[1], T{}), pair(low[2], low[3], T{}),
                               pair(high[0], high[1], T{}), pair(high[2], high[3], T{})}};
#pragma unroll
      for (int n = 0; n < columns; n += 16) {
        const FragmentsB right = fragments_of_columns<padded>(b, k, first + n);
        multiply(x[n / 8], left, right.x[0], right.x[1], T{});
        multiply(x[n / 8 + 1], left, right.x[2], right.x[3], T{});
      }
    }
  }
};

// Row of the warp's 16 that element 0 or 1 (`half` 0), 2 or 3 (`half` 1) of a fragment is in.
__device__ __forceinline__ int row_of(int half) {
  return static_cast<int>(threadIdx.x % 32 / 4) + 8 * half;
}
// Column of element 0 or 2 of a fragment; 1 and 3 are the next.
__device__ __forceinline__ int column_of(int tile) {
  return 8 * tile + static_cast<int>(threadIdx.x % 4) * 2;
}

// One element of an output in T or f32.
template <typename T>
__device__ __forceinline__ void store(void* out, std::int64_t at, float value, bool wide,
                                      bool accumulate) {
  if (wide) {
    float* to = static_cast<float*>(out) + at;
    *to = accumulate ? *to + value : value;
  } else {
    T* to = static_cast<T*>(out) + at;
    *to = narrow<T>(accumulate ? widen(*to) + value : value);
  }
}

// Columns `first` to `size` of row `half` of the warp's, which begins at `at` in the output.
template <typename T, int columns>
__device__ __forceinline__ void store_row(void* out, std::int64_t at, const Sums<columns>& sums,
                                          int half, float factor, int first, int size, bool wide,
                                          bool accumulate) {
#pragma unroll
  for (int n = 0; n < columns / 8; ++n) {
    const int column = first + column_of(n);
    // Sizes are multiples of 8: both are in or out.
    if (column >= size) continue;
    const float low = sums.x[n][2 * half] * factor, high = sums.x[n][2 * half + 1] * factor;
    if (!wide && !accumulate) {
      *reinterpret_cast<unsigned*>(static_cast<T*>(out) + at + column) = pair(low, high, T{});
      continue;
    }
    store<T>(out, at + column, low, wide, accumulate);
    store<T>(out, at + column + 1, high, wide, accumulate);
  }
}

constexpr float kLog2E = 1.44269504088896340736F, kLn2 = 0.69314718055994530942F;

// 2^x by the instruction for it: 2 units in the last place; 0 of minus infinity.
__device__ __forceinline__ float power_of_two(float x) {
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}

}  // namespace sextant::attention_mma
