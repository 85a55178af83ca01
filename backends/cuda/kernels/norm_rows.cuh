// Rows of norms held in registers: which shapes there are, and the choice of one.
#pragma once

#include "backends/cuda/kernels/put.cuh"
#include "backends/cuda/kernels/reduce.cuh"

#include <algorithm>

namespace sextant {

// A group of kThreads holds up to kThreads x kPacks packs of 16 bytes of each operand. Two packs a
// thread leave room for 36 warps on a processor, whose loads then hide each other's reductions;
// with eight packs a thread rows of 1600 columns ran at half the speed of a copy.
template <int kThreadsOf, int kPacksOf>
struct RowShape {
  static constexpr int kThreads = kThreadsOf, kPacks = kPacksOf;
  static constexpr int kRows = kThreads == kWarp ? 4 : 1;  // groups of a block
  static constexpr int kBlock = kThreads * kRows;
  static constexpr int kBlocks = kPacks > 2 ? 1 : std::max(1, 1152 / kBlock);  // of a processor
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
  if (packs <= 32 * 2)
    use.template operator()<RowShape<32, 2>>();
  else if (packs <= 64 * 2)
    use.template operator()<RowShape<64, 2>>();
  else if (packs <= 128 * 2)
    use.template operator()<RowShape<128, 2>>();
  else if (packs <= 256 * 2)
    use.template operator()<RowShape<256, 2>>();
  else if (packs <= 512 * 2)
    use.template operator()<RowShape<512, 2>>();
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
