// Numbers in the bytes of a file.
#pragma once

#include <bit>
#include <cstddef>
#include <cstring>
#include <span>

namespace sextant {

// `offset + sizeof(Number)` bytes are there. Files are little-endian, as every machine that this is
// compiled for.
template <typename Number>
Number number_at(std::span<const std::byte> bytes, std::size_t offset) {
  static_assert(std::endian::native == std::endian::little);
  Number number{};
  std::memcpy(&number, bytes.data() + offset, sizeof(number));
  return number;
}

}  // namespace sextant
