// Text of quantities for people, and the reverse for what people type.
#include "core/units.h"

#include "core/check.h"

#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <span>

namespace sextant {
namespace {

struct Unit {
  std::string_view name;
  double size = 1;
};

// Three significant digits of a value below the next unit; an exact count needs no fraction.
std::string digits(double value) {
  if (value < 9.995) return fmt::format("{:.2f}", value);
  if (value < 99.95) return fmt::format("{:.1f}", value);
  return fmt::format("{:.0f}", value);
}

// In the largest unit in which the printed number is at least one. The number is rounded before
// the unit is chosen, so that 999.9 us prints as 1.00 ms and never as 1000 us.
std::string in_best_unit(double value, std::span<const Unit> units) {
  const Unit& smallest = units.front();
  const Unit* best = &smallest;
  for (std::size_t i = 1; i < units.size(); ++i) {
    const double ratio = units[i].size / units[i - 1].size;
    const double in_smaller = std::abs(value) / units[i - 1].size;
    if (in_smaller >= ratio - 0.5) best = &units[i];
  }
  const double scaled = std::abs(value) / best->size;
  const std::string sign = value < 0 ? "-" : "";
  const bool whole = best == &smallest && scaled == std::floor(scaled) && scaled < 1e15;
  return sign + (whole ? fmt::format("{:.0f}", scaled) : digits(scaled)) + " " +
         std::string(best->name);
}

constexpr double kKibi = 1024.0;
constexpr std::array<Unit, 6> kByteUnits = {{{"B", 1},
                                             {"KiB", kKibi},
                                             {"MiB", kKibi* kKibi},
                                             {"GiB", kKibi* kKibi* kKibi},
                                             {"TiB", kKibi* kKibi* kKibi* kKibi},
                                             {"PiB", kKibi* kKibi* kKibi* kKibi* kKibi}}};
constexpr std::array<Unit, 7> kTimeUnits = {{{"ps", 1},
                                             {"ns", 1e3},
                                             {"us", 1e6},
                                             {"ms", 1e9},
                                             {"s", 1e12},
                                             {"min", 60e12},
                                             {"h", 3600e12}}};

std::string trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return std::string(text.substr(first, text.find_last_not_of(" \t") - first + 1));
}

// A typed amount: an integer or decimal number, then perhaps a unit, then nothing.
struct Amount {
  double number = 0;
  std::optional<std::int64_t> integer;  // when the number was written without a fraction
  std::string unit;
};

std::optional<Amount> split_amount(std::string_view text) {
  const std::string all = trimmed(text);
  const char* const end = all.data() + all.size();
  if (all.empty() || all.front() < '0' || all.front() > '9') return std::nullopt;
  Amount amount;
  const auto [after, failure] =
      std::from_chars(all.data(), end, amount.number, std::chars_format::fixed);
  if (failure != std::errc()) return std::nullopt;
  std::int64_t integer = 0;
  const auto whole = std::from_chars(all.data(), end, integer);
  if (whole.ec == std::errc() && whole.ptr == after) amount.integer = integer;
  amount.unit = trimmed(std::string_view(after, static_cast<std::size_t>(end - after)));
  return amount;
}

struct ExactUnit {
  std::string_view name;
  std::int64_t size = 1;
};

std::optional<std::int64_t> scaled(const Amount& amount, std::int64_t size) {
  if (amount.integer) {
    std::int64_t product = 0;
    if (__builtin_mul_overflow(*amount.integer, size, &product)) return std::nullopt;
    return product;
  }
  const double product = amount.number * static_cast<double>(size);
  if (!(product < 9.2e18)) return std::nullopt;
  return std::llround(product);
}

std::int64_t parse_amount(std::string_view text, std::string_view what,
                          std::span<const ExactUnit> units, std::string_view understood) {
  if (const auto amount = split_amount(text)) {
    for (const ExactUnit& unit : units) {
      if (unit.name != amount->unit) continue;
      if (const auto value = scaled(*amount, unit.size)) return *value;
      fail(ErrorCode::kUsage, "'{}' is too large for a {}", text, what);
    }
  }
  fail(ErrorCode::kUsage, "'{}' is not a {}: write a number and one of {}", text, what, understood);
}

}  // namespace

Duration duration_from_seconds(double seconds) {
  const double picoseconds = seconds * static_cast<double>(kPicosecondsPerSecond);
  require(seconds >= 0 && picoseconds < 9.2e18, ErrorCode::kUsage,
          "{} s is not a time: wanted 0 s to 106 days", seconds);
  return Duration(std::llround(picoseconds));
}

double to_seconds(Duration duration) {
  return static_cast<double>(duration.value) / static_cast<double>(kPicosecondsPerSecond);
}

std::string to_text(Bytes bytes) {
  return in_best_unit(static_cast<double>(bytes.value), kByteUnits);
}

std::string to_text(Duration duration) {
  if (duration.value == 0) return "0 s";
  return in_best_unit(static_cast<double>(duration.value), kTimeUnits);
}

std::string flops_rate_to_text(FlopsPerSecond rate) {
  static constexpr std::array<Unit, 7> kUnits = {{{"FLOP/s", 1},
                                                  {"kFLOP/s", 1e3},
                                                  {"MFLOP/s", 1e6},
                                                  {"GFLOP/s", 1e9},
                                                  {"TFLOP/s", 1e12},
                                                  {"PFLOP/s", 1e15},
                                                  {"EFLOP/s", 1e18}}};
  return in_best_unit(rate, kUnits);
}

std::string bandwidth_to_text(BytesPerSecond rate) {
  static constexpr std::array<Unit, 6> kUnits = {
      {{"B/s", 1}, {"kB/s", 1e3}, {"MB/s", 1e6}, {"GB/s", 1e9}, {"TB/s", 1e12}, {"PB/s", 1e15}}};
  return in_best_unit(rate, kUnits);
}

Bytes parse_bytes(std::string_view text) {
  static constexpr std::array<ExactUnit, 12> kUnits = {{{"", 1},
                                                        {"B", 1},
                                                        {"KiB", std::int64_t{1} << 10},
                                                        {"MiB", std::int64_t{1} << 20},
                                                        {"GiB", std::int64_t{1} << 30},
                                                        {"TiB", std::int64_t{1} << 40},
                                                        {"PiB", std::int64_t{1} << 50},
                                                        {"kB", 1'000},
                                                        {"MB", 1'000'000},
                                                        {"GB", 1'000'000'000},
                                                        {"TB", 1'000'000'000'000},
                                                        {"PB", 1'000'000'000'000'000}}};
  return Bytes(parse_amount(text, "size", kUnits,
                            "B, KiB, MiB, GiB, TiB, PiB (powers of 1024), kB, MB, GB, TB, PB "
                            "(powers of 1000), or no unit for bytes"));
}

Duration parse_duration(std::string_view text) {
  static constexpr std::array<ExactUnit, 8> kUnits = {{{"ps", 1},
                                                       {"ns", 1'000},
                                                       {"us", 1'000'000},
                                                       {"ms", 1'000'000'000},
                                                       {"s", kPicosecondsPerSecond},
                                                       {"min", 60 * kPicosecondsPerSecond},
                                                       {"h", 3600 * kPicosecondsPerSecond},
                                                       {"d", 86400 * kPicosecondsPerSecond}}};
  return Duration(parse_amount(text, "time", kUnits, "ps, ns, us, ms, s, min, h, d"));
}

}  // namespace sextant
