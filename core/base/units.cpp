// Text of quantities for people.
#include "core/base/units.h"

#include "core/base/check.h"

#include <array>
#include <cmath>
#include <span>
#include <string_view>

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

}  // namespace sextant
