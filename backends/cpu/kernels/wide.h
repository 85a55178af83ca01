// Operands in the widest type of their sort: floating types in double, integers and bool in 64
// bits, exactly.
#pragma once

#include "backends/cpu/elements.h"
#include "backends/cpu/kernel.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <type_traits>

namespace sextant {

// Calls `visit` with a zero of the wide type of `dtype`.
template <typename Visit>
void in_wide_type(DType dtype, const Visit& visit) {
  if (is_floating(dtype))
    visit(double{});
  else
    visit(std::int64_t{});
}

template <typename Wide>
std::span<Wide> load_wide(const KernelOperand& operand, Workspace& workspace) {
  const auto values =
      workspace.take<Wide>(static_cast<std::size_t>(operand.local.shape.elements()));
  visit_storage(operand.local.dtype, [&](auto element) {
    const auto* from = reinterpret_cast<const decltype(element)*>(operand.data);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<Wide>(widen(from[i]));
  });
  return values;
}

// Room for output `index`, every element `value`.
template <typename Wide>
std::span<Wide> make_wide(const KernelContext& context, std::size_t index, Wide value,
                          Workspace& workspace) {
  const auto values =
      workspace.take<Wide>(static_cast<std::size_t>(context.out[index].local.shape.elements()));
  std::fill(values.begin(), values.end(), value);
  return values;
}

// Integers wrap around instead of overflowing.
inline std::int64_t plus(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
}
inline double plus(double a, double b) { return a + b; }

// Rounds to the dtype of the output; adds to the present value first where the act accumulates.
template <typename Wide>
void store_wide(const KernelContext& context, std::size_t index, std::span<Wide> values,
                Workspace& workspace) {
  const KernelOperand& operand = context.out[index];
  if (context.accumulate[index]) {
    const auto present = load_wide<Wide>(operand, workspace);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = plus(values[i], present[i]);
  }
  if (operand.local.dtype == DType::kBool) {  // true and true is true, not 2
    for (std::size_t i = 0; i < values.size(); ++i)
      operand.data[i] = std::byte{values[i] != Wide{0}};
    return;
  }
  visit_storage(operand.local.dtype, [&](auto element) {
    using Storage = decltype(element);
    auto* to = reinterpret_cast<Storage*>(operand.data);
    for (std::size_t i = 0; i < values.size(); ++i) to[i] = narrow<Storage>(values[i]);
  });
}

// What a maximum or minimum over nothing is: -infinity or +infinity, of integers the lowest or
// highest value of the storage type, of bool false or true.
template <typename Wide>
Wide lowest_of(DType dtype) {
  if constexpr (std::is_same_v<Wide, double>) return -std::numeric_limits<double>::infinity();
  if (dtype == DType::kBool) return Wide{0};
  return static_cast<Wide>(dtype == DType::kI32 ? std::numeric_limits<std::int32_t>::lowest()
                                                : std::numeric_limits<std::int64_t>::lowest());
}
template <typename Wide>
Wide highest_of(DType dtype) {
  if constexpr (std::is_same_v<Wide, double>) return std::numeric_limits<double>::infinity();
  if (dtype == DType::kBool) return Wide{1};
  return static_cast<Wide>(dtype == DType::kI32 ? std::numeric_limits<std::int32_t>::max()
                                                : std::numeric_limits<std::int64_t>::max());
}

// NaN wins over every number, from either side.
template <typename Wide>
Wide larger(Wide a, Wide b) {
  return a < b || b != b ? b : a;
}
template <typename Wide>
Wide smaller(Wide a, Wide b) {
  return b < a || b != b ? b : a;
}

// Equal, or both NaN.
template <typename Wide>
bool is_same(Wide a, Wide b) {
  return a == b || (a != a && b != b);
}

}  // namespace sextant
