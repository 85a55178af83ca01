// Elements of operands in the widest type of their sort: floating types in double, integers and
// bool in 64 bits, exactly. They are widened when they are read and rounded when they are written:
// whole copies would take four times the memory of a bf16 tensor. Small inputs are copied all the
// same, because what is read often is read faster from a copy.
#pragma once

#include "backends/cpu/kernels/shared/kernel.h"
#include "core/base/elements.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <type_traits>

namespace sextant {

// Inputs of so many elements at most are widened as a whole: 32 KiB, the nearest cache of a core.
inline constexpr std::size_t kSmallInput = 4096;

inline std::size_t num_elements(const KernelOperand& operand) {
  return static_cast<std::size_t>(operand.local.shape.elements());
}

// Calls `visit` with a zero of the wide type of `dtype`.
template <typename Visit>
void in_wide_type(DType dtype, const Visit& visit) {
  if (is_floating(dtype) || is_8_bit_floating(dtype))
    visit(double{});
  else
    visit(std::int64_t{});
}

// Integers wrap around instead of overflowing.
inline std::int64_t plus(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
}
inline double plus(double a, double b) { return a + b; }

template <typename Wide>
Wide wide_element(DType dtype, const std::byte* data, std::size_t i) {
  return visit_storage(dtype, [&](auto zero) {
    return static_cast<Wide>(widen(reinterpret_cast<const decltype(zero)*>(data)[i]));
  });
}

// Elements to read.
template <typename Wide>
class ValuesOf {
 public:
  ValuesOf() = default;
  ValuesOf(const KernelOperand& operand, Workspace& workspace)
      : data_(operand.data), dtype_(operand.local.dtype), size_(num_elements(operand)) {
    constexpr DType kOwn = std::is_same_v<Wide, double> ? DType::kF64 : DType::kI64;
    if (dtype_ == kOwn) {
      wide_ = reinterpret_cast<const Wide*>(data_);
    } else if (size_ <= kSmallInput) {
      const auto copy = workspace.take<Wide>(size_);
      for (std::size_t i = 0; i < size_; ++i) copy[i] = wide_element<Wide>(dtype_, data_, i);
      wide_ = copy.data();
    }
  }

  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  Wide operator[](std::size_t i) const {
    return wide_ != nullptr ? wide_[i] : wide_element<Wide>(dtype_, data_, i);
  }

 private:
  const Wide* wide_ = nullptr;
  const std::byte* data_ = nullptr;
  DType dtype_ = DType::kF64;
  std::size_t size_ = 0;
};

// Elements to write, each once and rounded once. An input that has the output's bytes must have
// been read at that place.
template <typename Wide>
class OutputOf {
 public:
  OutputOf(const KernelContext& context, std::size_t index)
      : data_(context.out[index].data),
        dtype_(context.out[index].local.dtype),
        size_(num_elements(context.out[index])),
        accumulate_(context.accumulate[index]) {}

  std::size_t size() const { return size_; }
  // What is there: state, or a content that is accumulated.
  Wide present(std::size_t i) const { return wide_element<Wide>(dtype_, data_, i); }
  // Adds to what is there where the act accumulates. Sums of integers wrap around, over
  // micro-batches as between devices, so that they do not depend on which of the two a plan has.
  void put(std::size_t i, Wide value) const {
    if (dtype_ == DType::kBool) {  // true and true is true, not 2
      data_[i] = std::byte{(accumulate_ ? plus(value, present(i)) : value) != Wide{0}};
      return;
    }
    visit_storage(dtype_, [&](auto zero) {
      using Storage = decltype(zero);
      auto* to = reinterpret_cast<Storage*>(data_) + i;
      if constexpr (std::is_integral_v<Storage>) {
        const auto added = narrow<Storage>(value);
        *to = accumulate_ ? static_cast<Storage>(plus(std::int64_t{*to}, std::int64_t{added}))
                          : added;
      } else {
        const auto added = static_cast<double>(value);
        *to = narrow<Storage>(accumulate_ ? added + static_cast<double>(widen(*to)) : added);
      }
    });
  }

 private:
  std::byte* data_;
  DType dtype_;
  std::size_t size_;
  bool accumulate_;
};

// Sums on their way to output `index`, every element `value`: of kernels that come back to an
// element. `wide_outputs` is what they take.
template <typename Wide>
std::span<Wide> make_wide(const KernelContext& context, std::size_t index, Wide value,
                          Workspace& workspace) {
  const auto values = workspace.take<Wide>(num_elements(context.out[index]));
  std::fill(values.begin(), values.end(), value);
  return values;
}

template <typename Wide>
void store_wide(const KernelContext& context, std::size_t index, std::span<const Wide> values) {
  const OutputOf<Wide> output(context, index);
  for (std::size_t i = 0; i < values.size(); ++i) output.put(i, values[i]);
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
