// One round of a multiply-xorshift hash; the order of what is mixed in matters.
#pragma once

#include <cstdint>

namespace sextant {

constexpr void mix(std::uint64_t& hash, std::uint64_t value) {
  hash = (hash ^ value) * 0x9E3779B97F4A7C15ULL;
  hash ^= hash >> 29;
}

}  // namespace sextant
