// How another program stores a tensor of ours.
#pragma once

#include "core/tensors/shape.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace sextant {

// A tensor of another program's file that is one of ours, or a part of it, or holds it.
struct ForeignTensor {
  std::string own;
  std::vector<std::string> names;  // theirs: the one that is written first, then older ones
  Shape shape;                     // theirs
  bool is_transposed = false;      // ours is [n, m] of their [m, n]
  // Ours are the columns of the last dim from here on; others beside them are other tensors.
  std::optional<std::int64_t> first_column = {};
  std::optional<std::int64_t> expert = {};  // theirs is what ours has at this index of dim 0
};

// All tensors of a model, and what a file may have besides that says nothing more: ends of names.
struct ForeignModel {
  std::vector<ForeignTensor> tensors;
  std::vector<std::string> ignored;
};

}  // namespace sextant
