// The checksum of pieces: 64-bit FNV-1a over words of eight bytes. A change within one word always
// changes it: every step is a bijection of what came before.
#pragma once

#include "core/base/hash.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

namespace sextant {

class Checksum {
 public:
  // All parts but the last are multiples of eight bytes long; the last word is filled with zeros.
  Checksum& add(std::span<const std::byte> bytes) {
    for (std::size_t at = 0; at < bytes.size(); at += kWord) {
      std::int64_t word = 0;
      std::memcpy(&word, bytes.data() + at, std::min(kWord, bytes.size() - at));
      hash_.add(word);
    }
    return *this;
  }
  std::string text() const;  // 16 hex digits

 private:
  static constexpr std::size_t kWord = 8;
  Fnv1a hash_;
};

// Of all bytes at once.
std::string checksum_of(std::span<const std::byte> bytes);
// Of a text, byte by byte.
std::string checksum_of(std::string_view text);

}  // namespace sextant
