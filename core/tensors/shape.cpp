// Shapes: overflow-checked construction and text.
#include "core/tensors/shape.h"

#include "core/base/check.h"

#include <algorithm>
#include <charconv>
#include <utility>

namespace sextant {
namespace {

constexpr std::int64_t kMaxElements = std::int64_t{1} << 62;

std::string joined(const std::vector<std::int64_t>& extents) {
  if (extents.empty()) return "()";
  std::string text;
  for (const std::int64_t extent : extents) {
    if (!text.empty()) text += 'x';
    text += std::to_string(extent);
  }
  return text;
}

// An extent of zero counts as one in the check: strides of an empty tensor must not overflow
// either. Shapes are made all the time, so texts are only made for those that are refused.
std::int64_t checked_elements(const std::vector<std::int64_t>& extents) {
  if (extents.size() > kMaxRank)
    fail(ErrorCode::kBadInput, "a shape of rank {}: at most {} dims are supported", extents.size(),
         kMaxRank);
  std::int64_t product = 1;
  bool is_empty = false;
  for (const std::int64_t extent : extents) {
    if (extent < 0)
      fail(ErrorCode::kBadInput, "the shape {} has a negative extent", joined(extents));
    is_empty = is_empty || extent == 0;
    const bool overflows =
        __builtin_mul_overflow(product, std::max<std::int64_t>(extent, 1), &product);
    if (overflows || product > kMaxElements)
      fail(ErrorCode::kBadInput, "the shape {} has more than 2^62 elements", joined(extents));
  }
  return is_empty ? 0 : product;
}

}  // namespace

Shape::Shape(std::initializer_list<std::int64_t> extents)
    : Shape(std::vector<std::int64_t>(extents)) {}

Shape::Shape(std::vector<std::int64_t> extents)
    : extents_(std::move(extents)), elements_(checked_elements(extents_)) {}

Shape Shape::with_extent(std::size_t dim, std::int64_t extent) const {
  require(dim < rank(), ErrorCode::kUsage, "dim {} of the shape {}, which has {} dims", dim,
          to_string(*this), rank());
  std::vector<std::int64_t> extents = extents_;
  extents[dim] = extent;
  return Shape(std::move(extents));
}

std::string to_string(const Shape& shape) { return joined(shape.extents()); }

Shape parse_shape(std::string_view text) {
  if (text == "()") return Shape();
  std::vector<std::int64_t> extents;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (true) {
    std::int64_t extent = 0;
    const auto [after, failure] = std::from_chars(at, end, extent);
    require(failure == std::errc(), ErrorCode::kUsage,
            "'{}' is not a shape (column {}): wanted extents like 5x7, or () for a scalar", text,
            at - text.data() + 1);
    extents.push_back(extent);
    if (after == end) break;
    require(*after == 'x', ErrorCode::kUsage,
            "'{}' is not a shape (column {}): wanted extents like 5x7, or () for a scalar", text,
            after - text.data() + 1);
    at = after + 1;
  }
  return Shape(std::move(extents));
}

Bytes size_of(const TensorType& type) {
  std::int64_t bytes = 0;
  const bool overflows =
      __builtin_mul_overflow(type.shape.elements(), size_of(type.dtype).value, &bytes);
  if (overflows)
    fail(ErrorCode::kBadInput, "a tensor {} of {} has more than 2^63 bytes", to_string(type.shape),
         to_string(type.dtype));
  return Bytes(bytes);
}

}  // namespace sextant
