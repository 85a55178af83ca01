// Numbers as cluster files write them: plain, in the unit of the key, or text with a unit of its
// own.
#pragma once

#include <cstdint>
#include <string_view>

namespace sextant {

enum class QuantityKind : std::uint8_t {
  kBytesPerSecond,  // "900GB/s", "1.5 TiB/s"
  kFlopsPerSecond,  // "989.4TFLOP/s"
  kSeconds,         // "2us"
  kShare,           // "80%"
  kCount,           // no unit
};

// The plain unit of a kind, for messages: "B/s".
std::string_view unit_of(QuantityKind kind);

// Throws Error(kUsage) naming the text and the units that are understood.
double parse_quantity(std::string_view text, QuantityKind kind);

}  // namespace sextant
