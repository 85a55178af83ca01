// Words with the placement that they are on, as one value with one text form:
// `(S(0), B)@[dp=2, tp=2]`, and with devices that are not 0, 1, 2, ...
// `(S(0), B)@[dp=2, tp=2]{4-7}`.
#pragma once

#include "core/costs/cluster.h"
#include "core/tensors/placement.h"
#include "core/tensors/sbp.h"
#include "core/tensors/shape.h"

#include <string>
#include <string_view>

namespace sextant {

struct WordsAt {
  NdSbp words;
  Placement placement;
  bool operator==(const WordsAt&) const = default;
};

// The devices are shown where they are not 0, 1, 2, ... in the order of their coordinates.
std::string to_string(const WordsAt& words_at);
std::string to_string(const NdSbp& words, const Placement& placement);

// Without a list of devices they are 0, 1, 2, ... Throws Error(kUsage) with the text, the column
// and what would do: words or a mesh that are none, another number of words than of axes, a
// repeated axis or device, another number of devices than of coordinates.
WordsAt parse_words_at(std::string_view text);

// Throws Error(kUsage) naming the word, its column and the legal ones: a split of a dim that the
// shape lacks.
void require_fits(const WordsAt& words_at, const Shape& shape);
// Throws Error(kUsage) naming the first device that the cluster lacks.
void require_fits(const WordsAt& words_at, const Cluster& cluster);

}  // namespace sextant
