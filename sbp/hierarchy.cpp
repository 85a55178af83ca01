// The closed forms of README, "Hierarchies".
#include "sbp/hierarchy.h"

#include "core/base/check.h"
#include "sbp/nesting.h"

#include <algorithm>

namespace sextant {
namespace {

// Words with positions, B where the axis has one device only.
WordsOnMesh plain(const WordsOnMesh& mesh) {
  require(mesh.words.size() == mesh.extents.size(), ErrorCode::kUsage,
          "{} are {} words for {} mesh axes", to_string(mesh.words), mesh.words.size(),
          mesh.extents.size());
  require_clear_nesting(mesh.words);
  WordsOnMesh result{numbered(mesh.words), mesh.extents};
  for (std::size_t axis = 0; axis < result.words.size(); ++axis)
    if (result.extents[axis] == 1) result.words[axis] = Sbp::broadcast();
  return result;
}

// Least and greatest extent of the parts that the split of `axis` cuts.
struct Extents {
  std::int64_t least = 0, most = 0;
};
Extents extents_at(const WordsOnMesh& mesh, std::size_t axis, const Shape& shape) {
  const Sbp& word = mesh.words[axis];
  require(word.dim < shape.rank(), ErrorCode::kUsage,
          "{} splits dim {}, but the shape {} has {} dims", to_string(mesh.words), word.dim,
          to_string(shape), shape.rank());
  Extents extents{shape[word.dim], shape[word.dim]};
  for (std::size_t outer = 0; outer < mesh.words.size(); ++outer) {
    const Sbp& other = mesh.words[outer];
    if (!other.is_split() || other.dim != word.dim || other.nesting >= word.nesting) continue;
    const std::int64_t parts = mesh.extents[outer];
    extents = {extents.least / parts, (extents.most + parts - 1) / parts};
  }
  return extents;
}

// `major` and the axis behind it split the same dim.
bool splits_are_one(const WordsOnMesh& mesh, std::size_t major, const Shape& shape) {
  const Sbp &first = mesh.words[major], &second = mesh.words[major + 1];
  const std::int64_t a = mesh.extents[major], b = mesh.extents[major + 1];
  // Neighbours in mesh and nesting, or with splits between them that find one element at most.
  const bool in_order = first.nesting < second.nesting;
  const Extents extents = extents_at(mesh, in_order ? major : major + 1, shape);
  if (!in_order) return extents.most <= b;
  const bool nested_directly =
      std::none_of(mesh.words.begin(), mesh.words.end(), [&](const Sbp& w) {
        return w.is_split() && w.dim == first.dim && w.nesting > first.nesting &&
               w.nesting < second.nesting;
      });
  if (!nested_directly) return extents.most <= 1;
  return splits_merge(extents.least, a, b) && splits_merge(extents.most, a, b);
}

bool is_one_axis(const WordsOnMesh& mesh, std::size_t major, const Shape& shape) {
  const Sbp &first = mesh.words[major], &second = mesh.words[major + 1];
  if (mesh.extents[major] == 1 || mesh.extents[major + 1] == 1) return true;
  if (first.kind != second.kind) return false;
  switch (first.kind) {
    case Sbp::Kind::kBroadcast:
      return true;
    case Sbp::Kind::kPartial:
      return first.reduce == second.reduce;
    case Sbp::Kind::kSplit:
      return first.dim == second.dim && splits_are_one(mesh, major, shape);
  }
  return false;
}

// The word of two axes that are one: of a split the outermost position.
Sbp word_of_both(const WordsOnMesh& mesh, std::size_t major) {
  const Sbp &first = mesh.words[major], &second = mesh.words[major + 1];
  if (mesh.extents[major] == 1) return second;
  if (mesh.extents[major + 1] == 1) return first;
  return first.nesting <= second.nesting ? first : second;
}

}  // namespace

bool splits_merge(std::int64_t extent, std::int64_t a, std::int64_t b) {
  if (a == 1 || b == 1) return true;
  const std::int64_t rest = extent % (a * b);
  return rest <= 1 || rest == a * b - 1;
}

std::optional<WordsOnMesh> merge_axes(const WordsOnMesh& given, std::size_t axis,
                                      const Shape& shape) {
  require(axis + 1 < given.extents.size(), ErrorCode::kUsage,
          "axis {} of {} has none behind it to merge with", axis, given.extents.size());
  WordsOnMesh mesh = plain(given);
  if (!is_one_axis(mesh, axis, shape)) return std::nullopt;
  mesh.words[axis] = word_of_both(mesh, axis);
  mesh.extents[axis] *= mesh.extents[axis + 1];
  const auto behind = static_cast<std::ptrdiff_t>(axis) + 1;
  mesh.words.erase(mesh.words.begin() + behind);
  mesh.extents.erase(mesh.extents.begin() + behind);
  mesh.words = renumbered(mesh.words);
  return mesh;
}

std::optional<WordsOnMesh> split_axis(const WordsOnMesh& given, std::size_t axis,
                                      std::int64_t major, const Shape& shape) {
  require(axis < given.extents.size(), ErrorCode::kUsage, "axis {} of {}", axis,
          given.extents.size());
  const std::int64_t extent = given.extents[axis];
  require(major >= 1 && extent % major == 0, ErrorCode::kUsage,
          "{} does not divide the {} devices of axis {}", major, extent, axis);
  WordsOnMesh mesh = plain(given);
  const Sbp word = mesh.words[axis];
  for (Sbp& other : mesh.words)  // room for the minor part, right inside the major one
    if (word.is_split() && other.is_split() && other.dim == word.dim &&
        other.nesting > word.nesting)
      ++other.nesting;
  Sbp minor = word;
  if (word.is_split()) ++minor.nesting;
  const auto behind = static_cast<std::ptrdiff_t>(axis) + 1;
  mesh.words.insert(mesh.words.begin() + behind, minor);
  mesh.extents[axis] = major;
  mesh.extents.insert(mesh.extents.begin() + behind, extent / major);
  if (!is_one_axis(mesh, axis, shape)) return std::nullopt;
  for (const std::size_t part : {axis, axis + 1})
    if (mesh.extents[part] == 1) mesh.words[part] = Sbp::broadcast();
  mesh.words = renumbered(mesh.words);
  return mesh;
}

}  // namespace sextant
