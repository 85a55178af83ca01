// What the numbers of a cluster may be.
#include "simulator/clusters/cluster_fields.h"

#include <fmt/core.h>

#include <cmath>

namespace sextant {

bool is_in(double value, ValueRange range) {
  if (!std::isfinite(value)) return false;
  switch (range) {
    case ValueRange::kPositive:
      return value > 0;
    case ValueRange::kNotNegative:
      return value >= 0;
    case ValueRange::kShare:
      return value > 0 && value <= 1;
    case ValueRange::kShareOrNone:
      return value >= 0 && value <= 1;
  }
  return false;
}

std::string_view text_of(ValueRange range) {
  switch (range) {
    case ValueRange::kPositive:
      return "above zero";
    case ValueRange::kNotNegative:
      return "zero or above";
    case ValueRange::kShare:
      return "above zero and at most 1";
    case ValueRange::kShareOrNone:
      return "from zero to 1";
  }
  return "?";
}

std::string fault_of(double value, ValueRange range, QuantityKind kind) {
  if (!is_in(value, range)) return fmt::format("not {}", text_of(range));
  if (kind == QuantityKind::kCount && value != std::floor(value)) return "not a whole number";
  const auto [least, most] = limits_of(kind);
  if (value > most) return fmt::format("too much: at most {:g} {}", most, unit_of(kind));
  if (!lacks_unit(value, kind)) return "";
  if (kind == QuantityKind::kShare)
    return fmt::format("no machine's: at least {:g}, or zero where that is meant", least);
  return fmt::format("no machine's: is a unit missing, as in \"{}\"?", example_of(kind));
}

}  // namespace sextant
