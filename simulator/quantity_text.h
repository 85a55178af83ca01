// Numbers as cluster files write them: plain, in the unit of the key, or text with a unit of its
// own. A text without one is refused, because nobody knows which was meant.
#pragma once

#include <cstdint>
#include <string_view>

namespace sextant {

enum class QuantityKind : std::uint8_t {
  kBytesPerSecond,  // "900GB/s", "1.5 TiB/s"
  kFlopsPerSecond,  // "989.4TFLOP/s"
  kSeconds,         // "2us"
  kShare,           // "80%"
  kBytes,           // "400MiB"
  kCount,           // no unit
};

// The plain unit of a kind, for messages: "B/s".
std::string_view unit_of(QuantityKind kind);

// A value with a unit, for messages: "900GB/s".
std::string_view example_of(QuantityKind kind);

// Between which numbers some machine has one, zero apart: generous, so that only slips fall
// outside.
struct QuantityLimits {
  double least = 0, most = 0;
};
QuantityLimits limits_of(QuantityKind kind);

// A number that no machine has: 900 B/s, a latency of 5 s. Its author meant another unit. Zero is
// none of these.
bool lacks_unit(double value, QuantityKind kind);

// Throws Error(kUsage) naming the text and the units that are understood.
double parse_quantity(std::string_view text, QuantityKind kind);

}  // namespace sextant
