// Quantities as people write them: a number, then a unit. The one place that knows which units
// there are; what core/base/units.h prints reads back.
//
// k or K, M, G, T, P, E are powers of 1000 and Ki, Mi, Gi, Ti, Pi, Ei powers of 1024; B is a byte,
// b or bit an eighth of one. Times are ps, ns, us, ms, s, min, h, d. A number alone is refused,
// because nobody knows which unit was meant.
#pragma once

#include "core/base/error.h"
#include "core/base/units.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace sextant {

enum class QuantityKind : std::uint8_t {
  kBytesPerSecond,  // "900GB/s", "1.5 TiB/s", "200Gb/s"
  kFlopsPerSecond,  // "989.4TFLOP/s"
  kSeconds,         // "2us"
  kShare,           // "80%"
  kBytes,           // "400MiB"
  kCount,           // no unit
};

// The plain unit of a kind, for messages: "B/s".
std::string_view unit_of(QuantityKind kind);

// In the plain unit of the kind. Throws Error(kUsage) naming the text and the units that are
// understood.
double parse_quantity(std::string_view text, QuantityKind kind);

// Bytes and times to the byte and to the picosecond.
Bytes parse_bytes(std::string_view text);
Duration parse_duration(std::string_view text);

// What parse(text) makes of the value of an option or a key; `name` stands in front of what it
// refuses.
template <typename Parse>
auto parse_named(std::string_view name, std::string_view text, const Parse& parse) {
  try {
    return parse(text);
  } catch (const Error& error) {
    throw Error(error.code(), std::string(name) + ": " + error.what(), error.hints());
  }
}

}  // namespace sextant
