// Short forms for the tables of built-in numbers.
#pragma once

#include "core/costs/cluster.h"

#include <cstdint>
#include <string>
#include <utility>

namespace sextant {

inline constexpr double kTera = 1e12, kGiga = 1e9, kMicro = 1e-6;
inline constexpr std::int64_t kGigabyte = 1'000'000'000;
inline constexpr std::int64_t kMebibyte = std::int64_t{1} << 20;

inline Sourced published(double value, std::string source) {
  return {value, Provenance::kPublished, std::move(source)};
}

inline Sourced calibrated(double value, std::string source) {
  return {value, Provenance::kCalibrated, std::move(source)};
}

inline Sourced assumed(double value, std::string source) {
  return {value, Provenance::kAssumed, std::move(source)};
}

}  // namespace sextant
