// One row per kind.
#include "simulator/clusters/quantity_limits.h"

namespace sextant {

std::string_view example_of(QuantityKind kind) {
  switch (kind) {
    case QuantityKind::kBytesPerSecond:
      return "900GB/s";
    case QuantityKind::kFlopsPerSecond:
      return "312TFLOP/s";
    case QuantityKind::kSeconds:
      return "2us";
    case QuantityKind::kShare:
      return "80%";
    case QuantityKind::kBytes:
      return "80GB";
    case QuantityKind::kCount:
      return "128";
  }
  return "?";
}

QuantityLimits limits_of(QuantityKind kind) {
  switch (kind) {
    case QuantityKind::kBytesPerSecond:
      return {1e6, 1e18};
    case QuantityKind::kFlopsPerSecond:
      return {1e6, 1e21};
    case QuantityKind::kSeconds:
      return {0, 9.2e6};  // what 64 bits hold of picoseconds
    case QuantityKind::kShare:
      return {1e-6, 1e6};
    case QuantityKind::kBytes:
      return {1024, 1e15};
    case QuantityKind::kCount:
      return {1, 1 << 20};
  }
  return {};
}

bool lacks_unit(double value, QuantityKind kind) {
  if (kind == QuantityKind::kSeconds) return value >= 1;
  return value > 0 && value < limits_of(kind).least;
}

}  // namespace sextant
