// Dims of a reduction: normalised, checked, and mapped to dims of the result.
#include "core/operators/reductions/reduced_dims.h"

#include "core/base/check.h"

#include <utility>

namespace sextant {

std::size_t normal_dim(std::string_view kind, std::int64_t dim, std::size_t rank) {
  const auto dims = static_cast<std::int64_t>(rank);
  require(rank > 0, ErrorCode::kBadInput, "{}: dim {} of a tensor of 0 dims, which has none", kind,
          dim);
  require(-dims <= dim && dim < dims, ErrorCode::kBadInput,
          "{}: dim {} of a tensor of {} dims, wanted {} to {}", kind, dim, rank, -dims, dims - 1);
  return static_cast<std::size_t>(dim < 0 ? dim + dims : dim);
}

ReducedDims::ReducedDims(std::string_view kind, const Attributes& attributes, std::size_t rank)
    : reduced_(rank, false), keep_dims_(attributes.boolean_or("keep_dims", false)) {
  for (const std::int64_t given : attributes.integers("dims")) {
    const std::size_t dim = normal_dim(kind, given, rank);
    require(!reduced_[dim], ErrorCode::kBadInput, "{}: dim {} is named twice", kind, dim);
    reduced_[dim] = true;
  }
}

ReducedDims::ReducedDims(std::size_t dim, std::size_t rank) : reduced_(rank, false) {
  reduced_[dim] = true;
}

ReducedDims ReducedDims::all_but(std::string_view kind, const std::vector<std::int64_t>& kept,
                                 std::size_t rank) {
  ReducedDims dims(kind, {{"dims", kept}}, rank);
  dims.reduced_.flip();
  return dims;
}

std::vector<bool> ReducedDims::kept() const {
  std::vector<bool> kept = reduced_;
  kept.flip();
  return kept;
}

Shape ReducedDims::result(const Shape& shape) const {
  std::vector<std::int64_t> extents;
  for (std::size_t dim = 0; dim < rank(); ++dim) {
    if (!reduced_[dim])
      extents.push_back(shape[dim]);
    else if (keep_dims_)
      extents.push_back(1);
  }
  return Shape(std::move(extents));
}

std::int64_t ReducedDims::count(const Shape& shape) const {
  std::int64_t count = 1;
  for (std::size_t dim = 0; dim < rank(); ++dim)
    if (reduced_[dim]) count *= shape[dim];
  return count;
}

std::size_t ReducedDims::place(std::size_t dim) const {
  std::size_t place = 0;
  for (std::size_t before = 0; before < dim; ++before)
    if (!reduced_[before] || keep_dims_) ++place;
  return place;
}

Sbp ReducedDims::word_of_result(std::size_t dim) const {
  return reduced_[dim] ? Sbp::broadcast() : Sbp::split(place(dim));
}

}  // namespace sextant
