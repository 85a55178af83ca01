// Elements of tables by signed index: staged and physical graphs refer to their own tables with
// 32-bit integers.
#pragma once

#include <cstddef>
#include <cstdint>

namespace sextant {

template <typename Table>
constexpr decltype(auto) at(Table& table, std::int32_t index) {
  return table[static_cast<std::size_t>(index)];
}

}  // namespace sextant
