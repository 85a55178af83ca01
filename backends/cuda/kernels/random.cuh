// The random numbers of core/counter_rng.h in device code: the same bits for the same seed, stream
// and index. Philox4x32-10 of Salmon et al. (SC 2011).
#pragma once

#include <cstdint>

namespace sextant {

struct PhiloxWords {
  std::uint32_t words[4];
};

__device__ __forceinline__ PhiloxWords philox(PhiloxWords counter, std::uint64_t key) {
  auto key0 = static_cast<std::uint32_t>(key), key1 = static_cast<std::uint32_t>(key >> 32);
#pragma unroll
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{0xD2511F53} * counter.words[0];
    const std::uint64_t b = std::uint64_t{0xCD9E8D57} * counter.words[2];
    counter = {{static_cast<std::uint32_t>(b >> 32) ^ counter.words[1] ^ key0,
                static_cast<std::uint32_t>(b),
                static_cast<std::uint32_t>(a >> 32) ^ counter.words[3] ^ key1,
                static_cast<std::uint32_t>(a)}};
    key0 += 0x9E3779B9;
    key1 += 0xBB67AE85;
  }
  return counter;
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

// CounterRng(seed, stream).bits(index).
__device__ __forceinline__ std::uint64_t random_bits(std::uint64_t seed, std::uint64_t stream,
                                                     std::uint64_t index) {
  return first_half(
      philox({{static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(index >> 32),
               static_cast<std::uint32_t>(stream), static_cast<std::uint32_t>(stream >> 32)}},
             seed));
}

}  // namespace sextant
