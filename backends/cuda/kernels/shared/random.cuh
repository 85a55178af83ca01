// The random numbers of core/base/counter_rng.h in device code: the same bits for the same seed,
// stream and index. Philox4x32-10 of Salmon et al. (SC 2011).
#pragma once

#include <cstdint>

namespace sextant {

struct PhiloxWords {
  std::uint32_t words[4];
};

// One instruction. The compiler, left to itself, adds the product of the upper halves, which are 0.
__device__ __forceinline__ std::uint64_t wide_product(std::uint32_t a, std::uint32_t b) {
  std::uint64_t product;
  asm("mul.wide.u32 %0, %1, %2;" : "=l"(product) : "r"(a), "r"(b));
  return product;
}
__device__ __forceinline__ std::uint32_t low_half(std::uint64_t value) {
  return static_cast<std::uint32_t>(value);
}
__device__ __forceinline__ std::uint32_t high_half(std::uint64_t value) {
  return static_cast<std::uint32_t>(value >> 32);
}

inline constexpr std::uint32_t kPhiloxFactor0 = 0xD2511F53, kPhiloxFactor1 = 0xCD9E8D57;
inline constexpr std::uint32_t kPhiloxKeyStep0 = 0x9E3779B9, kPhiloxKeyStep1 = 0xBB67AE85;
inline constexpr int kPhiloxRounds = 10;

// Rounds from `first` (0 to 9) on.
__device__ __forceinline__ PhiloxWords philox_rounds(PhiloxWords counter, std::uint64_t key,
                                                     int first) {
  std::uint32_t key0 = low_half(key), key1 = high_half(key);
#pragma unroll
  for (int round = 0; round < kPhiloxRounds; ++round) {
    if (round >= first) {
      const std::uint64_t a = wide_product(counter.words[0], kPhiloxFactor0);
      const std::uint64_t b = wide_product(counter.words[2], kPhiloxFactor1);
      counter = {{high_half(b) ^ counter.words[1] ^ key0, low_half(b),
                  high_half(a) ^ counter.words[3] ^ key1, low_half(a)}};
    }
    key0 += kPhiloxKeyStep0;
    key1 += kPhiloxKeyStep1;
  }
  return counter;
}

__device__ __forceinline__ PhiloxWords philox(PhiloxWords counter, std::uint64_t key) {
  return philox_rounds(counter, key, 0);
}

__device__ __forceinline__ std::uint64_t first_half(const PhiloxWords& block) {
  return (std::uint64_t{block.words[0]} << 32) | block.words[1];
}

// seed_of_act.
__device__ __forceinline__ std::uint64_t act_seed(std::uint64_t seed, std::int64_t layer,
                                                  std::int64_t step, std::int64_t micro_batch) {
  return first_half(
      philox({{static_cast<std::uint32_t>(step),
               static_cast<std::uint32_t>(static_cast<std::uint64_t>(step) >> 32),
               static_cast<std::uint32_t>(layer), static_cast<std::uint32_t>(micro_batch)}},
             seed));
}

// CounterRng(seed, stream).bits of indices that share their upper half. What the first two rounds
// make of the rest of the counter is computed once: of 20 products an index costs 17.
class StreamDraws {
 public:
  __device__ __forceinline__ StreamDraws(std::uint64_t seed, std::uint64_t stream,
                                         std::uint32_t upper)
      : seed_(seed) {
    const std::uint32_t key0 = low_half(seed), key1 = high_half(seed);
    const std::uint64_t b = wide_product(low_half(stream), kPhiloxFactor1);
    first2_ = high_half(stream) ^ key1;
    const std::uint64_t a = wide_product(high_half(b) ^ upper ^ key0, kPhiloxFactor0);
    second0_ = low_half(b) ^ (key0 + kPhiloxKeyStep0);
    second2_ = high_half(a) ^ (key1 + kPhiloxKeyStep1);
    second3_ = low_half(a);
  }

  __device__ __forceinline__ std::uint64_t bits(std::uint32_t lower) const {
    const std::uint64_t a = wide_product(lower, kPhiloxFactor0);
    const std::uint64_t b = wide_product(high_half(a) ^ first2_, kPhiloxFactor1);
    return first_half(philox_rounds(
        {{high_half(b) ^ second0_, low_half(b), second2_ ^ low_half(a), second3_}}, seed_, 2));
  }

 private:
  std::uint64_t seed_;
  // What is the same in the words behind the first and the second round.
  std::uint32_t first2_, second0_, second2_, second3_;
};

}  // namespace sextant
