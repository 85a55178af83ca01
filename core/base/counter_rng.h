// Random numbers as a function of (seed, stream name, index): no state, so any shard on any device
// draws the same bits for the same element. Philox4x32-10 of Salmon et al. (SC 2011).
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace sextant {

using PhiloxBlock = std::array<std::uint32_t, 4>;
using PhiloxKey = std::array<std::uint32_t, 2>;

// One block of ten rounds. constexpr, so that device code can call it too.
constexpr PhiloxBlock philox4x32(PhiloxBlock counter, PhiloxKey key) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{0xD2511F53} * counter[0];
    const std::uint64_t b = std::uint64_t{0xCD9E8D57} * counter[2];
    counter = {
        static_cast<std::uint32_t>(b >> 32) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(b),
        static_cast<std::uint32_t>(a >> 32) ^ counter[3] ^ key[1], static_cast<std::uint32_t>(a)};
    key = {key[0] + 0x9E3779B9, key[1] + 0xBB67AE85};
  }
  return counter;
}

// Which act draws: the same forward, backward and when it is recomputed.
struct ActPosition {
  std::int64_t layer = 0, step = 0, micro_batch = 0;
};

// Seed of all streams of one act: no two acts draw the same numbers.
std::uint64_t seed_of_act(std::uint64_t seed, const ActPosition& act);

// One stream of numbers, for instance the elements of one parameter.
class CounterRng {
 public:
  CounterRng(std::uint64_t seed, std::string_view stream);

  // 64 bits, evenly spread; the same for the same place in the stream.
  std::uint64_t bits(std::uint64_t index) const;
  double uniform(std::uint64_t index) const;  // in (0, 1], 53 bits
  double normal(std::uint64_t index) const;   // mean 0, deviation 1 (Box-Muller, cosine branch)

  // What tells the streams of a seed apart, for devices that draw themselves: the upper half of the
  // counter.
  std::uint64_t stream() const { return stream_; }

 private:
  PhiloxBlock block(std::uint64_t index) const;

  PhiloxKey key_;
  std::uint64_t stream_;  // upper half of the counter
};

}  // namespace sextant
