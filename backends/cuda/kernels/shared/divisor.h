// Division by a number known when a kernel is made, on indices that fit 31 bits: a multiplication
// and a shift (Granlund and Montgomery 1994) instead of the twenty instructions of a division.
#pragma once

#include <cstdint>

namespace sextant {

struct Divisor {
  std::uint32_t by = 1, multiplier = 1, shift = 0;

  Divisor() = default;
  // 1 <= divisor < 2^31.
  explicit Divisor(std::int64_t divisor) : by(static_cast<std::uint32_t>(divisor)) {
    while ((std::uint64_t{1} << shift) < by) ++shift;
    const std::uint64_t power = std::uint64_t{1} << shift;
    multiplier = static_cast<std::uint32_t>(((power - by) << 32) / by + 1);
  }

#ifdef __CUDACC__
  // of < 2^31, so the sum below does not overflow.
  __device__ __forceinline__ std::uint32_t quotient(std::uint32_t of) const {
    return (__umulhi(of, multiplier) + of) >> shift;
  }
#endif
};

}  // namespace sextant
