// Which dims a reduction takes, and the shapes and words that follow. Shared by the reductions, the
// scans, softmax and the norms; kernels use it too.
#pragma once

#include "core/tensors/attributes.h"
#include "core/tensors/sbp.h"
#include "core/tensors/shape.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace sextant {

// `dim` counted from the front; negative ones count from the back. Throws Error(kBadInput) for a
// dim that a tensor of this rank has not.
std::size_t normal_dim(std::string_view kind, std::int64_t dim, std::size_t rank);

class ReducedDims {
 public:
  // Reads `dims` and [`keep_dims` = false]. Throws Error(kBadInput) for a dim out of range or named
  // twice.
  ReducedDims(std::string_view kind, const Attributes& attributes, std::size_t rank);
  // Only `dim` is reduced, and it vanishes.
  ReducedDims(std::size_t dim, std::size_t rank);
  // All dims but these are reduced, and vanish. Throws as the first.
  static ReducedDims all_but(std::string_view kind, const std::vector<std::int64_t>& kept,
                             std::size_t rank);

  std::size_t rank() const { return reduced_.size(); }
  bool contains(std::size_t dim) const { return reduced_[dim]; }
  const std::vector<bool>& reduced() const { return reduced_; }
  std::vector<bool> kept() const;

  Shape result(const Shape& shape) const;
  // Elements of `shape` that are reduced to one.
  std::int64_t count(const Shape& shape) const;
  // Where a kept dim stands in the result.
  std::size_t place(std::size_t dim) const;
  // The word of a tensor of the result's shape when `dim` is split: its own split, or B where the
  // dim is reduced.
  Sbp word_of_result(std::size_t dim) const;

 private:
  std::vector<bool> reduced_;
  bool keep_dims_ = false;
};

// Of the first input of a kind.
inline ReducedDims reduced_dims_of(std::string_view kind, std::span<const TensorType> inputs,
                                   const Attributes& attributes) {
  return ReducedDims(kind, attributes, inputs[0].shape.rank());
}

}  // namespace sextant
