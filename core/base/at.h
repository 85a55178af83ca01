// Positions as signed integers: graphs and tapes refer to their own tables with them. No check
// beyond the one of the checking standard library.
#pragma once

#include <cstddef>
#include <cstdint>

namespace sextant {

// Position `index` of a table, for its subscript.
constexpr std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

// Element `index` of `table`.
template <typename Table>
constexpr decltype(auto) at(Table& table, std::int32_t index) {
  return table[static_cast<std::size_t>(index)];
}

// How many elements `values` has, as the integer that its positions are kept in.
template <typename Values>
constexpr std::int32_t size_of(const Values& values) {
  return static_cast<std::int32_t>(values.size());
}

}  // namespace sextant
