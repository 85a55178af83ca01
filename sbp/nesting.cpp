// Counts the splits of the same dim that lie outside.
#include "sbp/nesting.h"

#include <algorithm>

namespace sextant {

NdSbp numbered(const NdSbp& words) {
  NdSbp all = words;
  for (std::size_t axis = 0; axis < all.size(); ++axis) {
    if (!all[axis].is_split() || words[axis].nesting != 0) continue;
    int position = 1;
    for (std::size_t before = 0; before < axis; ++before)
      if (words[before].is_split() && words[before].dim == words[axis].dim) ++position;
    all[axis].nesting = static_cast<std::uint8_t>(position);
  }
  return all;
}

NdSbp renumbered(const NdSbp& words) {
  NdSbp result = words;
  for (std::size_t axis = 0; axis < words.size(); ++axis) {
    if (!words[axis].is_split()) continue;
    const auto inside = std::count_if(words.begin(), words.end(), [&](const Sbp& word) {
      return word.is_split() && word.dim == words[axis].dim && word.nesting < words[axis].nesting;
    });
    result[axis].nesting = static_cast<std::uint8_t>(inside + 1);
  }
  return canonical(result);
}

}  // namespace sextant
