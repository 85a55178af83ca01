// One unit table per kind; numbers are decimal, without sign.

#include "simulator/quantity_text.h"

#include "core/check.h"

#include <charconv>
#include <span>
#include <string>

namespace sextant {

namespace {

struct Unit {
  std::string_view name;
  double size = 1;
};

constexpr double kKibi = 1024.0;
constexpr Unit kByteRates[] = {{"B/s", 1},
                               {"KB/s", 1e3},
                               {"MB/s", 1e6},
                               {"GB/s", 1e9},
                               {"TB/s", 1e12},
                               {"KiB/s", kKibi},
                               {"MiB/s", kKibi* kKibi},
                               {"GiB/s", kKibi* kKibi* kKibi},
                               {"TiB/s", kKibi* kKibi* kKibi* kKibi}};
constexpr Unit kFlopRates[] = {{"FLOP/s", 1},     {"MFLOP/s", 1e6},  {"GFLOP/s", 1e9},
                               {"TFLOP/s", 1e12}, {"PFLOP/s", 1e15}, {"TFLOPS", 1e12}};
constexpr Unit kTimes[] = {{"s", 1}, {"ms", 1e-3}, {"us", 1e-6}, {"ns", 1e-9}};
constexpr Unit kShares[] = {{"%", 0.01}};

std::span<const Unit> units_of(QuantityKind kind) {
  switch (kind) {
    case QuantityKind::kBytesPerSecond:
      return kByteRates;
    case QuantityKind::kFlopsPerSecond:
      return kFlopRates;
    case QuantityKind::kSeconds:
      return kTimes;
    case QuantityKind::kShare:
      return kShares;
    case QuantityKind::kCount:
      return {};
  }
  return {};
}

std::string names_of(std::span<const Unit> units) {
  std::string names = "no unit";
  for (const Unit& unit : units) names += ", " + std::string(unit.name);
  return names;
}

std::string_view without_spaces(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

}  // namespace

std::string_view unit_of(QuantityKind kind) {
  switch (kind) {
    case QuantityKind::kBytesPerSecond:
      return "B/s";
    case QuantityKind::kFlopsPerSecond:
      return "FLOP/s";
    case QuantityKind::kSeconds:
      return "s";
    case QuantityKind::kShare:
      return "of 1";
    case QuantityKind::kCount:
      return "(a count)";
  }
  return "?";
}

double parse_quantity(std::string_view text, QuantityKind kind) {
  const std::string_view all = without_spaces(text);
  const std::span<const Unit> units = units_of(kind);
  const bool starts_with_digit = !all.empty() && all.front() >= '0' && all.front() <= '9';
  double number = 0;
  const auto [end, error] = std::from_chars(all.data(), all.data() + all.size(), number);
  if (starts_with_digit && error == std::errc()) {
    const auto rest = without_spaces(all.substr(static_cast<std::size_t>(end - all.data())));
    if (rest.empty()) return number;
    // Divided by the reciprocal where that is a whole number: 1.5us is then the nearest double.
    for (const Unit& unit : units)
      if (unit.name == rest) return unit.size < 1 ? number / (1 / unit.size) : number * unit.size;
  }
  fail(ErrorCode::kUsage, "'{}' is not a quantity in {}: write a number with {}", text,
       unit_of(kind), names_of(units));
}

}  // namespace sextant
