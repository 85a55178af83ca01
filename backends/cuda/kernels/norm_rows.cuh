// Rows of norms held in registers: which shapes there are, and the choice of one.
#pragma once

#include "backends/cuda/kernels/put.cuh"
#include "backends/cuda/kernels/reduce.cuh"

#include <algorithm>

namespace sextant {

// A group of kThreads holds up to kThreads x kPacks packs of 16 bytes of each operand.
template <int kThreadsOf, int kPacksOf>
struct RowShape {
  static constexpr int kThreads = kThreadsOf, kPacks = kPacksOf;
  static constexpr int kRows = kThreads == kWarp ? 4 : 1;  // groups of a block
  static constexpr int kBlock = kThreads * kRows;
};

inline constexpr std::int64_t kMostRowBlocks = 0x7FFFFFFF;  // gridDim.x

inline unsigned row_blocks(std::int64_t rows, int rows_of_block) {
  return static_cast<unsigned>(
      std::min((rows + rows_of_block - 1) / rows_of_block, kMostRowBlocks));
}

// Calls `use.template operator()<Shape>()` with the smallest shape that holds a row of `packs`;
// returns false if none does.
template <typename Use>
bool with_row_shape(std::int64_t packs, const Use& use) {
  if (packs <= 32 * 4)
    use.template operator()<RowShape<32, 4>>();
  else if (packs <= 32 * 8)
    use.template operator()<RowShape<32, 8>>();
  else if (packs <= 128 * 4)
    use.template operator()<RowShape<128, 4>>();
  else if (packs <= 256 * 4)
    use.template operator()<RowShape<256, 4>>();
  else if (packs <= 1024 * 4)
    use.template operator()<RowShape<1024, 4>>();
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

// Makes the compiler widen the packs anew from here on, instead of holding every widened element of
// an earlier pass: half the registers.
template <typename T, int kPacks>
__device__ __forceinline__ void hold_packed(Pack<T> (&packs)[kPacks]) {
#pragma unroll
  for (int pack = 0; pack < kPacks; ++pack) {
    std::uint32_t words[4];
    memcpy(words, &packs[pack], sizeof(words));
    asm volatile("" : "+r"(words[0]), "+r"(words[1]), "+r"(words[2]), "+r"(words[3]));
    memcpy(&packs[pack], words, sizeof(words));
  }
}

}  // namespace sextant
