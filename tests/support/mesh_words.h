// Words over a mesh, for sweeps.
#pragma once

#include "core/tensors/sbp.h"

#include <cstddef>
#include <utility>
#include <vector>

namespace sextant::testing {

// All words with `axes` letters, in axis order, those of the last axis varying fastest.
inline std::vector<NdSbp> words_over(const std::vector<Sbp>& letters, std::size_t axes) {
  std::vector<NdSbp> words{{}};
  for (std::size_t axis = 0; axis < axes; ++axis) {
    std::vector<NdSbp> longer;
    for (const NdSbp& prefix : words)
      for (const Sbp& letter : letters) {
        longer.push_back(prefix);
        longer.back().push_back(letter);
      }
    words = std::move(longer);
  }
  return words;
}

}  // namespace sextant::testing
