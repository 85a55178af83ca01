// FNV-1a over integers and text: keys of tables that compare for equality afterwards, and the
// identity of texts inside plans.
#pragma once

#include <cstdint>
#include <string_view>

namespace sextant {

class Fnv1a {
 public:
  Fnv1a& add(std::string_view text) {
    for (const char c : text) add_byte(static_cast<unsigned char>(c));
    return *this;
  }
  // As one symbol: quicker than its bytes, and the table compares anyway.
  Fnv1a& add(std::int64_t value) {
    state_ = (state_ ^ static_cast<std::uint64_t>(value)) * kPrime;
    state_ ^= state_ >> 32;
    return *this;
  }
  std::uint64_t value() const { return state_; }

 private:
  static constexpr std::uint64_t kPrime = 0x100000001b3;
  void add_byte(unsigned char byte) { state_ = (state_ ^ byte) * kPrime; }
  std::uint64_t state_ = 0xcbf29ce484222325;
};

}  // namespace sextant
