// Elements are widened, combined and rounded once.
#include "backends/cpu/kernels/shared/boxes.h"

#include "core/base/elements.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

namespace sextant {
namespace {

// Storage of bool, the only type of one byte: true is 1.
using Flag = std::uint8_t;

// Integers wrap around, so that a sum does not depend on its order even where it overflows.
template <typename Wide>
Wide sum_of(Wide a, Wide b) {
  if constexpr (std::is_same_v<Wide, Flag>)
    return a | b;
  else if constexpr (std::is_integral_v<Wide>)
    return static_cast<Wide>(static_cast<std::make_unsigned_t<Wide>>(a) +
                             static_cast<std::make_unsigned_t<Wide>>(b));
  else
    return a + b;
}

// NaN wins over every number, on either side: no order of reduction may lose it.
template <typename Wide>
Wide extreme_of(Wide a, Wide b, bool b_is_further) {
  if constexpr (std::is_floating_point_v<Wide>) {
    if (std::isnan(a)) return a;
    if (std::isnan(b)) return b;
  }
  return b_is_further ? b : a;
}

template <typename Wide>
Wide combine(ReduceOp op, Wide a, Wide b) {
  switch (op) {
    case ReduceOp::kSum:
      return sum_of(a, b);
    case ReduceOp::kMax:
      return extreme_of(a, b, a < b);
    case ReduceOp::kMin:
      return extreme_of(a, b, b < a);
  }
  __builtin_unreachable();
}

template <typename Wide>
Wide neutral(ReduceOp op) {
  using Limits = std::numeric_limits<Wide>;
  if constexpr (std::is_same_v<Wide, Flag>) return op == ReduceOp::kMin ? Flag{1} : Flag{0};
  switch (op) {
    case ReduceOp::kSum:
      return Wide{0};
    case ReduceOp::kMax:
      return Limits::has_infinity ? -Limits::infinity() : Limits::lowest();
    case ReduceOp::kMin:
      return Limits::has_infinity ? Limits::infinity() : Limits::max();
  }
  __builtin_unreachable();
}

}  // namespace

void copy_box(const Shard& part, const BoxBuffer& from, const BoxBuffer& to, DType dtype) {
  const std::int64_t size = size_of(dtype).value;
  for_each_row(part, *from.box, *to.box,
               [&](std::int64_t source, std::int64_t destination, std::int64_t count) {
                 // A part that is in its place already is copied onto itself.
                 std::memmove(to.data + destination * size, from.data + source * size,
                              static_cast<std::size_t>(count * size));
               });
}

void reduce_elements(ReduceOp op, DType dtype, const std::byte* from, std::byte* to,
                     std::int64_t count) {
  visit_storage(dtype, [&](auto element) {
    using Storage = decltype(element);
    const auto* source = reinterpret_cast<const Storage*>(from);
    auto* destination = reinterpret_cast<Storage*>(to);
    for (std::int64_t i = 0; i < count; ++i)
      destination[i] = narrow<Storage>(combine(op, widen(destination[i]), widen(source[i])));
  });
}

void reduce_box(ReduceOp op, const Shard& part, const BoxBuffer& from, const BoxBuffer& to,
                DType dtype) {
  const std::int64_t size = size_of(dtype).value;
  for_each_row(part, *from.box, *to.box,
               [&](std::int64_t source, std::int64_t destination, std::int64_t count) {
                 reduce_elements(op, dtype, from.data + source * size, to.data + destination * size,
                                 count);
               });
}

void fill_neutral(ReduceOp op, DType dtype, std::byte* to, std::int64_t count) {
  visit_storage(dtype, [&](auto element) {
    using Storage = decltype(element);
    const auto value = narrow<Storage>(neutral<decltype(widen(element))>(op));
    auto* destination = reinterpret_cast<Storage*>(to);
    std::fill(destination, destination + count, value);
  });
}

}  // namespace sextant
