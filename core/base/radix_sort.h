// Sorts by whole numbers, digit by digit: a comparison that nobody can foretell costs more than a
// digit.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace sextant {

// By `key(value)`, ascending; no key is negative, and equal ones keep their order. Digits that are
// zero in all keys cost nothing.
template <typename Value, typename Key>
void radix_sort(std::vector<Value>& values, const Key& key) {
  constexpr unsigned kBits = 11, kDigits = 1U << kBits;
  std::uint64_t used = 0;
  for (const Value& value : values) used |= static_cast<std::uint64_t>(key(value));
  std::vector<Value> sorted(values.size());
  for (unsigned shift = 0; shift < 64; shift += kBits) {
    if (((used >> shift) & (kDigits - 1)) == 0) continue;
    const auto digit = [&](const Value& value) {
      return static_cast<std::size_t>((static_cast<std::uint64_t>(key(value)) >> shift) &
                                      (kDigits - 1));
    };
    std::array<std::size_t, kDigits> place = {};
    for (const Value& value : values) ++place[digit(value)];
    std::size_t next = 0;
    for (std::size_t& of_digit : place) next += std::exchange(of_digit, next);
    for (const Value& value : values) sorted[place[digit(value)]++] = value;
    values.swap(sorted);
  }
}

}  // namespace sextant
