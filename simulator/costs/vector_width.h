// Arithmetic on four integers at a time, as wide as the machine has it: functions are compiled for
// several widths, and the choice is made when the program starts. Sanitizers do not cope with
// functions that are chosen at load time.
#pragma once

#include <cstddef>
#include <cstdint>

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define SEXTANT_FOR_EACH_VECTOR_WIDTH \
  __attribute__((target_clones("default", "avx2"), optimize("O3"), flatten))
#else
#define SEXTANT_FOR_EACH_VECTOR_WIDTH
#endif

namespace sextant {

inline constexpr std::ptrdiff_t kLanes = 4;
// Compilers lower it to what there is. Never passed or returned by value: that would depend on it.
using Lanes = std::int64_t __attribute__((vector_size(32), aligned(8), may_alias));

inline Lanes& lanes_at(std::int64_t* values) { return *reinterpret_cast<Lanes*>(values); }
inline const Lanes& lanes_at(const std::int64_t* values) {
  return *reinterpret_cast<const Lanes*>(values);
}

constexpr std::ptrdiff_t padded_to_lanes(std::ptrdiff_t count) {
  return (count + kLanes - 1) / kLanes * kLanes;
}

}  // namespace sextant
