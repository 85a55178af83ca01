// An axis that splits inside another's split has a greater depth.
#include "compiler/words/state_words.h"

#include <algorithm>
#include <optional>

namespace sextant {
namespace {

// Splits `dim` over `axes` inside of the splits that it has.
void split_inside(std::size_t dim, std::span<const std::size_t> axes, NdSbp& words) {
  int depth = 0;
  for (Sbp& word : words)
    if (word.is_split() && word.dim == dim) word = Sbp::split(dim, ++depth);
  for (const std::size_t axis : axes) words[axis] = Sbp::split(dim, ++depth);
}

}  // namespace

void split_state(const Shape& shape, std::span<const std::size_t> axes, std::int64_t parts,
                 NdSbp& words) {
  const auto is_taken = [&](std::size_t dim) {
    return std::any_of(words.begin(), words.end(),
                       [&](const Sbp& word) { return word.is_split() && word.dim == dim; });
  };
  std::optional<std::size_t> chosen, inside;
  for (std::size_t dim = 0; dim < shape.rank(); ++dim) {
    if (is_taken(dim)) inside = inside.value_or(dim);
    if (!is_taken(dim) && shape[dim] >= parts) chosen = chosen.value_or(dim);
  }
  if (!chosen && inside) return split_inside(*inside, axes, words);
  const auto& extents = shape.extents();
  const auto largest = std::max_element(extents.begin(), extents.end()) - extents.begin();
  for (const std::size_t axis : axes)
    words[axis] = Sbp::split(chosen.value_or(static_cast<std::size_t>(largest)));
}

}  // namespace sextant
