// Streams over Philox: the seed is the key, the hash of the name the upper half of the counter, the
// index its lower half. So streams of one seed never overlap unless two names hash alike.
#include "core/base/counter_rng.h"

#include <cmath>
#include <numbers>

namespace sextant {
namespace {

// 64-bit FNV-1a.
std::uint64_t hash_of(std::string_view text) {
  std::uint64_t hash = 0xCBF29CE484222325;
  for (const char c : text) {
    hash ^= static_cast<unsigned char>(c);
    hash *= 0x100000001B3;
  }
  return hash;
}

constexpr std::uint32_t low(std::uint64_t value) { return static_cast<std::uint32_t>(value); }
constexpr std::uint32_t high(std::uint64_t value) {
  return static_cast<std::uint32_t>(value >> 32);
}
constexpr std::uint64_t join(std::uint32_t high, std::uint32_t low) {
  return (std::uint64_t{high} << 32) | low;
}

// (0, 1]: the logarithm of the result is finite.
double unit_interval(std::uint64_t bits) {
  return (static_cast<double>(bits >> 11) + 1.0) * 0x1.0p-53;
}

}  // namespace

// The position is the counter, so different ones give different blocks, of which half is kept.
// Layers and micro-batches share 64 bits, 32 each.
std::uint64_t seed_of_act(std::uint64_t seed, const ActPosition& act) {
  const auto step = static_cast<std::uint64_t>(act.step);
  const PhiloxBlock words =
      philox4x32({low(step), high(step), static_cast<std::uint32_t>(act.layer),
                  static_cast<std::uint32_t>(act.micro_batch)},
                 {low(seed), high(seed)});
  return join(words[0], words[1]);
}

CounterRng::CounterRng(std::uint64_t seed, std::string_view stream)
    : key_{low(seed), high(seed)}, stream_(hash_of(stream)) {}

PhiloxBlock CounterRng::block(std::uint64_t index) const {
  return philox4x32({low(index), high(index), low(stream_), high(stream_)}, key_);
}

std::uint64_t CounterRng::bits(std::uint64_t index) const {
  const PhiloxBlock words = block(index);
  return join(words[0], words[1]);
}

double CounterRng::uniform(std::uint64_t index) const { return unit_interval(bits(index)); }

double CounterRng::normal(std::uint64_t index) const {
  const PhiloxBlock words = block(index);
  const double radius = std::sqrt(-2.0 * std::log(unit_interval(join(words[0], words[1]))));
  const double angle = 2.0 * std::numbers::pi * unit_interval(join(words[2], words[3]));
  return radius * std::cos(angle);
}

}  // namespace sextant
