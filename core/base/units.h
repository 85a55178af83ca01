// Quantities with their unit in the type: bytes, virtual time, FLOPs and rates.
#pragma once

#include <compare>
#include <cstdint>
#include <string>

namespace sextant {

// A count of `Tag` held as 64-bit integer. Sums and differences keep the unit.
template <typename Tag>
struct Quantity {
  std::int64_t value = 0;

  constexpr Quantity() = default;
  constexpr explicit Quantity(std::int64_t v) : value(v) {}
  constexpr auto operator<=>(const Quantity&) const = default;
  constexpr Quantity& operator+=(Quantity other) {
    value += other.value;
    return *this;
  }
  constexpr Quantity& operator-=(Quantity other) {
    value -= other.value;
    return *this;
  }
  friend constexpr Quantity operator+(Quantity a, Quantity b) {
    return Quantity(a.value + b.value);
  }
  friend constexpr Quantity operator-(Quantity a, Quantity b) {
    return Quantity(a.value - b.value);
  }
  friend constexpr Quantity operator*(Quantity a, std::int64_t n) { return Quantity(a.value * n); }
  friend constexpr Quantity operator*(std::int64_t n, Quantity a) { return Quantity(a.value * n); }
};

using Bytes = Quantity<struct BytesTag>;
// Picoseconds. A point in virtual time is a Duration since the start of the run.
using Duration = Quantity<struct DurationTag>;
using Time = Duration;

// A model of a trillion parameters does 10^25 FLOPs a step: more than an integer holds.
using Flops = double;
using FlopsPerSecond = double;
using BytesPerSecond = double;

inline constexpr std::int64_t kPicosecondsPerSecond = 1'000'000'000'000;

// Rounds to the nearest picosecond; the only place where seconds become virtual time. Throws
// Error(kUsage) for a negative, infinite or overlong (> 106 days) time.
Duration duration_from_seconds(double seconds);
double to_seconds(Duration duration);

// "1.50 GiB", "12.3 ms", "312 TFLOP/s", "25.0 GB/s": three significant digits, for people, in units
// that core/text/quantity_text.h reads.
std::string to_text(Bytes bytes);
std::string to_text(Duration duration);
std::string flops_rate_to_text(FlopsPerSecond rate);
std::string bandwidth_to_text(BytesPerSecond rate);

}  // namespace sextant
