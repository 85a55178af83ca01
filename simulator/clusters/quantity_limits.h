// What a quantity of a machine may be: between which numbers it lies, and what is likelier a slip.
#pragma once

#include "core/text/quantity_text.h"

#include <string_view>

namespace sextant {

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

}  // namespace sextant
