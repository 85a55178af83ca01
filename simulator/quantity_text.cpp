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
constexpr Unit kTimes[] = {{"s", 1},    {"ms", 1e-3}, {"us", 1e-6}, {"ns", 1e-9},
                           {"min", 60}, {"h", 3600},  {"d", 86400}};
constexpr Unit kShares[] = {{"%", 0.01}};
constexpr Unit kSizes[] = {{"B", 1},
                           {"kB", 1e3},
                           {"MB", 1e6},
                           {"GB", 1e9},
                           {"KiB", kKibi},
                           {"MiB", kKibi* kKibi},
                           {"GiB", kKibi* kKibi* kKibi}};

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
    case QuantityKind::kBytes:
      return kSizes;
    case QuantityKind::kCount:
      return {};
  }
  return {};
}

std::string names_of(std::span<const Unit> units) {
  std::string names;
  for (const Unit& unit : units) names += (names.empty() ? "" : ", ") + std::string(unit.name);
  return names.empty() ? "no unit" : names;
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
    case QuantityKind::kBytes:
      return "B";
    case QuantityKind::kCount:
      return "(a count)";
  }
  return "?";
}

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
      return {kKibi, 1e15};
    case QuantityKind::kCount:
      return {1, 1 << 20};
  }
  return {};
}

bool lacks_unit(double value, QuantityKind kind) {
  if (kind == QuantityKind::kSeconds) return value >= 1;
  return value > 0 && value < limits_of(kind).least;
}

double parse_quantity(std::string_view text, QuantityKind kind) {
  const std::string_view all = without_spaces(text);
  const std::span<const Unit> units = units_of(kind);
  const bool starts_with_digit = !all.empty() && all.front() >= '0' && all.front() <= '9';
  double number = 0;
  const auto [end, error] = std::from_chars(all.data(), all.data() + all.size(), number);
  if (starts_with_digit && error == std::errc()) {
    const auto rest = without_spaces(all.substr(static_cast<std::size_t>(end - all.data())));
    if (rest.empty() && units.empty()) return number;
    require(!rest.empty(), ErrorCode::kUsage, "'{}' has no unit: write one of {}", text,
            names_of(units));
    // Divided by the reciprocal where that is a whole number: 1.5us is then the nearest double.
    for (const Unit& unit : units)
      if (unit.name == rest) return unit.size < 1 ? number / (1 / unit.size) : number * unit.size;
  }
  fail(ErrorCode::kUsage, "'{}' is not a quantity in {}: write a number with {}", text,
       unit_of(kind), names_of(units));
}

}  // namespace sextant
