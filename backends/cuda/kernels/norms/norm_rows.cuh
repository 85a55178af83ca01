// Rows of norms held in registers: which shapes there are, the choice of one, and the walk over the
// rows. Of packs of 16 bytes (RowShape), or of single elements (ElementRows).
#pragma once

#include "backends/cuda/kernels/shared/grid.h"
#include "backends/cuda/kernels/shared/put.cuh"
#include "backends/cuda/kernels/shared/reduce.cuh"

#include <algorithm>
#include <initializer_list>

namespace sextant {

// What a group of threads has in registers: the row it computes; the next one too, whose loads are
// under way meanwhile; weights and all other operands, too.
enum class Holds { kRow, kNextRow, kAll };

// A group of kThreads holds kSure x kThreads to kPacks x kThreads packs of 16 bytes of each
// operand; kBlocks blocks of kBlock threads run on a processor at once.
template <int kThreadsOf, int kSureOf, int kPacksOf, int kBlockOf, int kBlocksOf,
          Holds kHolds = Holds::kAll>
struct RowShape {
  static constexpr int kThreads = kThreadsOf, kSure = kSureOf, kPacks = kPacksOf;
  static constexpr int kBlock = kBlockOf, kBlocks = kBlocksOf;
  static constexpr int kRows = kBlock / kThreads;  // groups of a block
  static constexpr bool kHoldsNext = kHolds != Holds::kRow;
  static constexpr bool kHoldsAll = kHolds == Holds::kAll;

  // One wave, in which all groups have as many rows, or one fewer. In company several, of blocks
  // that have as many rows fewer: those that find no processor free wait for a part of the time.
  static unsigned blocks(std::int64_t rows, bool in_company) {
    constexpr std::int64_t kWavesInCompany = 3;
    if (!kHoldsNext) return row_blocks(rows, kRows);
    const std::int64_t at_once = kProcessors * kBlocks * kRows;
    std::int64_t turns = (rows + at_once - 1) / at_once;
    if (in_company) turns = (turns + kWavesInCompany - 1) / kWavesInCompany;
    return row_blocks((rows + turns - 1) / turns, kRows);
  }
};

// Calls `use.template operator()<Shape>()` with the smallest shape that holds a row of `packs` of
// up to three operands; returns false if none does.
template <typename Use>
bool with_row_shape(std::int64_t packs, const Use& use) {
  if (packs <= 64)
    use.template operator()<RowShape<32, 0, 2, 128, 5>>();
  else if (packs <= 128)
    use.template operator()<RowShape<32, 2, 4, 128, 3>>();
  else if (packs <= 256)
    use.template operator()<RowShape<64, 2, 4, 128, 3>>();
  else if (packs <= 512)
    use.template operator()<RowShape<128, 2, 4, 128, 3>>();
  else if (packs <= 1024)
    use.template operator()<RowShape<256, 2, 4, 256, 1>>();
  else if (packs <= 2048)
    use.template operator()<RowShape<1024, 1, 2, 1024, 1, Holds::kNextRow>>();
  else if (packs <= 4096)
    use.template operator()<RowShape<1024, 2, 4, 1024, 1, Holds::kRow>>();
  else
    return false;
  return true;
}

// The same for one operand.
template <typename Use>
bool with_shape_of_one(std::int64_t packs, const Use& use) {
  if (packs <= 64)
    use.template operator()<RowShape<32, 0, 2, 128, 8>>();
  else if (packs <= 128)
    use.template operator()<RowShape<32, 2, 4, 128, 4>>();
  else if (packs <= 256)
    use.template operator()<RowShape<32, 4, 8, 128, 3>>();
  else if (packs <= 512)
    use.template operator()<RowShape<128, 2, 4, 128, 4>>();
  else if (packs <= 1024)
    use.template operator()<RowShape<256, 2, 4, 256, 2>>();
  else if (packs <= 2048)
    use.template operator()<RowShape<512, 2, 4, 512, 1>>();
  else if (packs <= 4096)
    use.template operator()<RowShape<1024, 2, 4, 1024, 1, Holds::kNextRow>>();
  else
    return false;
  return true;
}

template <typename T>
bool has_packs(std::int64_t length, std::initializer_list<const void*> rows) {
  if (length % Pack<T>::kSize != 0) return false;
  return std::all_of(rows.begin(), rows.end(), [](const void* row) {
    return reinterpret_cast<std::uintptr_t>(row) % 16 == 0;
  });
}

// The packs of a thread: `thread`, `thread` + kThreads ... of each row.
template <typename T, typename Shape>
struct RowThread {
  static constexpr int kPacks = Shape::kPacks, kSize = Pack<T>::kSize, kStep = Shape::kThreads;
  using Packs = uint4[kPacks];

  int packs, thread = static_cast<int>(threadIdx.x) % Shape::kThreads;

  __device__ explicit RowThread(std::int64_t length) : packs(static_cast<int>(length / kSize)) {}

  // Pack u of the thread, if it has one, is at [u * kStep] from its first.
  __device__ __forceinline__ bool has(int u) const {
    return u < Shape::kSure || thread + u * kStep < packs;
  }
  __device__ __forceinline__ const uint4* first(const void* data, std::int64_t row) const {
    return static_cast<const uint4*>(data) + (row * packs + thread);
  }
  __device__ __forceinline__ uint4* first(void* data, std::int64_t row) const {
    return static_cast<uint4*>(data) + (row * packs + thread);
  }
  __device__ __forceinline__ void load(Packs& to, const void* data, std::int64_t row) const {
    const uint4* from = first(data, row);
#pragma unroll
    for (int u = 0; u < kPacks; ++u)
      if (has(u)) to[u] = from[u * kStep];
  }
  // Calls use(u) for the packs that the thread has.
  template <typename Use>
  __device__ __forceinline__ void for_each(const Use& use) const {
#pragma unroll
    for (int u = 0; u < kPacks; ++u)
      if (has(u)) use(u);
  }
  __device__ __forceinline__ int elements_of_warp() const {
    int count = 0;
#pragma unroll
    for (int u = 0; u < kPacks; ++u)
      count += max(0, min(packs - (thread / kWarp * kWarp + u * kStep), kWarp)) * kSize;
    return count;
  }
};

// Makes the compiler widen the packs anew from here on, instead of holding every widened element:
// half the registers of 16-bit types.
template <int kPacks>
__device__ __forceinline__ void hold_packed(uint4 (&packs)[kPacks]) {
#pragma unroll
  for (uint4& pack : packs)
    asm volatile("" : "+r"(pack.x), "+r"(pack.y), "+r"(pack.z), "+r"(pack.w));
}

// An operand that all rows share: in registers, or read where it is used.
template <typename T, typename Shape>
struct SharedRow {
  const uint4* from;
  uint4 held[Shape::kHoldsAll ? Shape::kPacks : 1];

  __device__ __forceinline__ SharedRow(const RowThread<T, Shape>& own, const void* data)
      : from(own.first(data, 0)) {
    if constexpr (Shape::kHoldsAll) own.load(held, data, 0);
  }
  __device__ __forceinline__ uint4 pack(int u) const {
    if constexpr (Shape::kHoldsAll)
      return held[u];
    else
      return from[u * Shape::kThreads];
  }
  __device__ __forceinline__ void hold() {
    if constexpr (Shape::kHoldsAll) hold_packed(held);
  }
};

// Calls `use(row, Row, turn)` for the rows of the thread's group, `turn` 0 and 1 by turns, with
// what `load(Row&, row)` loaded: of the row after it before `use` where the shape holds it.
template <typename Shape, typename Row, typename Load, typename Use>
__device__ __forceinline__ void for_each_row(std::int64_t rows, const Load& load, const Use& use) {
  const std::int64_t step = std::int64_t{gridDim.x} * Shape::kRows;
  std::int64_t row = std::int64_t{blockIdx.x} * Shape::kRows + threadIdx.x / Shape::kThreads;
  if (row >= rows) return;
  Row now;
  load(now, row);
  for (int turn = 0;; turn ^= 1) {
    const std::int64_t next_row = row + step;
    Row next;
    if constexpr (Shape::kHoldsNext)
      if (next_row < rows) load(next, next_row);
    use(row, now, turn);
    if (next_row >= rows) return;
    if constexpr (Shape::kHoldsNext)
      now = next;
    else
      load(now, next_row);
    row = next_row;
  }
}

// Rows of any alignment, of up to kThreads x kPer elements, in the registers of a block of
// kThreads. Single elements are half a line a warp, but all of a row's loads are in flight
// together.
template <typename T, int kThreadsOf, int kPerOf>
struct ElementRows {
  static constexpr int kThreads = kThreadsOf, kPer = kPerOf;
  // Blocks that run on a processor at once; f64 has registers of its own size.
  static constexpr int kBlocks = sizeof(T) == 8 ? 1 : 768 / kThreads;
  std::int64_t length;
  int thread = static_cast<int>(threadIdx.x);

  __device__ explicit ElementRows(std::int64_t length_of_row) : length(length_of_row) {}

  // Element u of the thread is at [u * kThreads] from its first.
  __device__ __forceinline__ const T* first(const void* data, std::int64_t row) const {
    return static_cast<const T*>(data) + (row * length + thread);
  }
  __device__ __forceinline__ T* first(void* data, std::int64_t row) const {
    return static_cast<T*>(data) + (row * length + thread);
  }
  // Calls use(u) for the elements that the thread has.
  template <typename Use>
  __device__ __forceinline__ void for_each(const Use& use) const {
    const int count = static_cast<int>(length);
#pragma unroll
    for (int u = 0; u < kPer; ++u)
      if (thread + u * kThreads < count) use(u);
  }
  __device__ __forceinline__ void load(T (&to)[kPer], const void* data, std::int64_t row) const {
    const T* from = first(data, row);
    for_each([&](int u) { to[u] = from[u * kThreads]; });
  }
};

// Calls `use.template operator()<ElementRows>()` with the smallest that holds a row; returns false
// if none does.
template <typename T, typename Use>
bool with_element_rows(std::int64_t length, const Use& use) {
  if (length <= 1024)
    use.template operator()<ElementRows<T, 64, 16>>();
  else if (length <= 4096)
    use.template operator()<ElementRows<T, 256, 16>>();
  else
    return false;
  return true;
}

}  // namespace sextant
