// Extents of a tensor, row-major, rank 0 to 16. The element count is checked against overflow when
// a shape is made.
#pragma once

#include "core/base/dtype.h"
#include "core/base/units.h"

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace sextant {

inline constexpr std::size_t kMaxRank = 16;

class Shape {
 public:
  Shape() = default;  // rank 0: a scalar
  // Throws Error(kBadInput) for a negative extent, rank above 16 or more than 2^62 elements.
  Shape(std::initializer_list<std::int64_t> extents);
  explicit Shape(std::vector<std::int64_t> extents);

  std::size_t rank() const { return extents_.size(); }
  std::int64_t operator[](std::size_t dim) const { return extents_[dim]; }
  std::int64_t elements() const { return elements_; }
  const std::vector<std::int64_t>& extents() const { return extents_; }
  // With another extent in `dim`. Throws Error(kUsage) where it has no such dim.
  Shape with_extent(std::size_t dim, std::int64_t extent) const;
  bool operator==(const Shape&) const = default;
  auto operator<=>(const Shape&) const = default;

 private:
  std::vector<std::int64_t> extents_;
  std::int64_t elements_ = 1;
};

std::string to_string(const Shape& shape);  // "5x7", scalar "()"
Shape parse_shape(std::string_view text);   // the reverse; throws Error(kUsage)

// Shape and element type of a global or local tensor.
struct TensorType {
  Shape shape;
  DType dtype = DType::kF32;
  bool operator==(const TensorType&) const = default;
};

// Packed. Throws Error(kBadInput) for more bytes than an integer holds.
Bytes size_of(const TensorType& type);

}  // namespace sextant
