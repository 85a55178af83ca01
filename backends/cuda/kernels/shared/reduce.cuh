// Reductions in device code: over a warp, a group of warps or a block, and along a row 16 bytes at
// a time. All in a fixed order: the same bits in every run.
#pragma once

#include "backends/cuda/kernels/shared/elements.cuh"

#include <cuda_runtime.h>

#include <cstdint>

namespace sextant {

inline constexpr int kWarp = 32;

struct Plus {
  template <typename W>
  __device__ __forceinline__ W operator()(W a, W b) const {
    return a + b;
  }
};
// NaN wins over every number, from either side.
struct Larger {
  template <typename W>
  __device__ __forceinline__ W operator()(W a, W b) const {
    return a < b || b != b ? b : a;
  }
};
struct Smaller {
  template <typename W>
  __device__ __forceinline__ W operator()(W a, W b) const {
    return b < a || b != b ? b : a;
  }
};

// Every number wins over NaN.
struct Fmax {
  __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
  __device__ double operator()(double a, double b) const { return fmax(a, b); }
};

// In every lane, over kLanes neighbours: a power of two. All lanes of the warp call.
template <int kLanes, typename W, typename Combine>
__device__ __forceinline__ W over_lanes(W value, const Combine& combine) {
#pragma unroll
  for (int distance = kLanes / 2; distance > 0; distance /= 2)
    value = combine(value, __shfl_xor_sync(0xFFFFFFFFu, value, distance));
  return value;
}
template <typename W, typename Combine>
__device__ __forceinline__ W over_warp(W value, const Combine& combine) {
  return over_lanes<kWarp>(value, combine);
}

// A barrier of each group of kThreads of a block of kBlock: at most 16 groups of whole warps.
template <int kThreads, int kBlock>
__device__ __forceinline__ void sync_group() {
  static_assert(kThreads % kWarp == 0 && kBlock % kThreads == 0 && kBlock / kThreads <= 16);
  if constexpr (kThreads == kWarp)
    __syncwarp();
  else if constexpr (kThreads == kBlock)
    __syncthreads();
  else
    asm volatile("bar.sync %0, %1;" ::"r"(static_cast<int>(threadIdx.x) / kThreads), "n"(kThreads)
                 : "memory");
}

// The value of lane 0 of each warp of a group of kThreads, of a block of kBlock: in lanes 0, 1, ...
// that of warp 0, 1, ..., again and again. One barrier: calls alternate with `turn` 0 and 1, and so
// write nothing that threads behind still read.
template <int kThreads, int kBlock, typename Value>
__device__ __forceinline__ Value of_warps(const Value& value, int turn) {
  constexpr int kWarps = kThreads / kWarp;
  __shared__ Value parts[2][kBlock / kWarp];
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  if (lane == 0) parts[turn][warp] = value;
  sync_group<kThreads, kBlock>();
  return parts[turn][warp / kWarps * kWarps + lane % kWarps];
}

// Several sums over a group at once, in every thread of it; `turn` as above.
template <int kThreads, int kBlock, int kCount, typename W>
__device__ __forceinline__ void sum_over_group(W (&values)[kCount], int turn) {
#pragma unroll
  for (W& value : values) value = over_warp(value, Plus());
  if constexpr (kThreads > kWarp) {
    struct Values {
      W of[kCount];
    } own;
#pragma unroll
    for (int i = 0; i < kCount; ++i) own.of[i] = values[i];
    own = of_warps<kThreads, kBlock>(own, turn);
#pragma unroll
    for (int i = 0; i < kCount; ++i) values[i] = over_lanes<kThreads / kWarp>(own.of[i], Plus());
  }
}

// In every thread of a group: a warp, or a block of kThreads, a multiple of 32 up to 1024. All
// threads of the group call.
template <int kThreads, typename W, typename Combine>
__device__ __forceinline__ W over_group(W value, const Combine& combine) {
  value = over_warp(value, combine);
  if constexpr (kThreads > kWarp) {
    constexpr int kWarps = kThreads / kWarp;
    __shared__ W parts[kWarps];
    __syncthreads();  // the parts of an earlier call have been read
    if (threadIdx.x % kWarp == 0) parts[threadIdx.x / kWarp] = value;
    __syncthreads();
    if constexpr (kWarps == kWarp) {
      value = over_warp(parts[threadIdx.x % kWarp], combine);
    } else {
      value = parts[0];
#pragma unroll
      for (int warp = 1; warp < kWarps; ++warp) value = combine(value, parts[warp]);
    }
  }
  return value;
}

// Both over a block of kThreads, in every thread of it.
template <int kThreads>
__device__ __forceinline__ double2 sum_over_block(double2 own) {
  double sums[] = {own.x, own.y};
  __syncthreads();  // the parts of an earlier call have been read
  sum_over_group<kThreads, kThreads>(sums, 0);
  return {sums[0], sums[1]};
}

// A row of any alignment: elements to the first 16-byte boundary, whole packs, the rest.
struct RowParts {
  std::int64_t head = 0, packs = 0, tail = 0;  // the tail as the index of its first element
};
template <typename T>
__device__ __forceinline__ RowParts parts_of(const T* row, std::int64_t length) {
  const auto past = reinterpret_cast<std::uintptr_t>(row) % 16 / sizeof(T);
  RowParts parts;
  if (past != 0) parts.head = Pack<T>::kSize - static_cast<std::int64_t>(past);
  if (parts.head > length) parts.head = length;
  parts.packs = (length - parts.head) / Pack<T>::kSize;
  parts.tail = parts.head + parts.packs * Pack<T>::kSize;
  return parts;
}

// Calls for what thread `thread` of `threads` (32 or more) has of a row: `use_packs(index of the
// first element of the first pack, Pack<T>[kLoads or 1])`, `threads` packs from one to the next,
// loaded together; and `use_one(index, value of T)` where there is no whole pack.
template <int kLoads, typename T, typename UseOne, typename UsePacks>
__device__ __forceinline__ void for_each_batch_of_row(const T* row, std::int64_t length, int thread,
                                                      int threads, const UseOne& use_one,
                                                      const UsePacks& use_packs) {
  constexpr int kSize = Pack<T>::kSize;
  const RowParts parts = parts_of(row, length);
  if (thread < parts.head) use_one(std::int64_t{thread}, row[thread]);
  const auto* packs = reinterpret_cast<const Pack<T>*>(row + parts.head);
  std::int64_t first = thread;
  for (; first + (kLoads - 1) * threads < parts.packs; first += kLoads * threads) {
    Pack<T> loaded[kLoads];
#pragma unroll
    for (int load = 0; load < kLoads; ++load) loaded[load] = packs[first + load * threads];
    use_packs(parts.head + first * kSize, loaded);
  }
  for (; first < parts.packs; first += threads) {
    const Pack<T> loaded[1] = {packs[first]};
    use_packs(parts.head + first * kSize, loaded);
  }
  if (thread < length - parts.tail) use_one(parts.tail + thread, row[parts.tail + thread]);
}

// The same, pack by pack: `use_pack(index of its first element, Pack<T>)`.
template <int kLoads, typename T, typename UseOne, typename UsePack>
__device__ __forceinline__ void for_each_pack_of_row(const T* row, std::int64_t length, int thread,
                                                     int threads, const UseOne& use_one,
                                                     const UsePack& use_pack) {
  for_each_batch_of_row<kLoads>(row, length, thread, threads, use_one,
                                [&]<int kCount>(std::int64_t first, const Pack<T>(&packs)[kCount]) {
#pragma unroll
                                  for (int p = 0; p < kCount; ++p)
                                    use_pack(first + p * threads * Pack<T>::kSize, packs[p]);
                                });
}

// Calls `use(index, wide value)` for every element that the thread has.
template <int kLoads, typename T, typename Use>
__device__ __forceinline__ void for_each_of_row(const T* row, std::int64_t length, int thread,
                                                int threads, const Use& use) {
  for_each_pack_of_row<kLoads>(
      row, length, thread, threads, [&](std::int64_t index, T value) { use(index, widen(value)); },
      [&](std::int64_t index, const Pack<T>& pack) {
#pragma unroll
        for (int i = 0; i < Pack<T>::kSize; ++i) use(index + i, widen(pack.values[i]));
      });
}

}  // namespace sextant
