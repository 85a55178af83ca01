// Merging and splitting of mesh axes: other extents, the same devices in the same order, and each
// of them holds what it held. README, "Hierarchies".
#pragma once

#include "core/tensors/sbp.h"
#include "core/tensors/shape.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace sextant {

struct WordsOnMesh {
  NdSbp words;
  std::vector<std::int64_t> extents;  // of the mesh axes, major to minor
  bool operator==(const WordsOnMesh&) const = default;
};

// Merges `axis` and the one behind it. Nothing where that would change what some device holds: the
// words differ on axes of two or more parts, or the parts of their splits would come to lie
// elsewhere. The result is canonical, and B on an axis of extent 1.
std::optional<WordsOnMesh> merge_axes(const WordsOnMesh& mesh, std::size_t axis,
                                      const Shape& shape);

// Splits `axis` into one of extent `major` and, behind it, one of the rest. Nothing as above;
// throws Error(kUsage) where `major` does not divide the extent.
std::optional<WordsOnMesh> split_axis(const WordsOnMesh& mesh, std::size_t axis, std::int64_t major,
                                      const Shape& shape);

// Two balanced splits, over a and inside each part over b, give the parts of one over a * b.
bool splits_merge(std::int64_t extent, std::int64_t a, std::int64_t b);

}  // namespace sextant
