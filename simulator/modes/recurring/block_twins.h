// Matrices for the common case that the places of a unit are in step: what they have one each of
// comes in as one.
#pragma once

#include "simulator/modes/recurring/block_matrix.h"

#include <cstdint>
#include <span>
#include <vector>

namespace sextant {

class TwinFolding {
 public:
  explicit TwinFolding(const BlockTape& tape) : tape_(tape) {}
  // `rows`: by output, then by input.
  void fold(const BlockStructure& structure, std::span<const std::int64_t> rows,
            BlockMatrix& matrix, BlockMatrices& into);

 private:
  void find_twins(const BlockStructure& structure);
  void add_kind(std::int32_t count, std::int32_t num_places);
  // The row over the first input of each kind, at the end of `folded_`.
  void fold_row(std::span<const std::int64_t> row);
  // Where the row at the end of `folded_` stands first; it is taken away if that is before.
  std::int32_t place_of_last_row();

  const BlockTape& tape_;
  std::vector<std::int32_t> place_of_;  // by input
  std::vector<std::int32_t> first_of_;  // by input: the first of its kind
  std::vector<std::int32_t> firsts_;    // all of those
  std::vector<std::int32_t> kind_of_;   // by input: its place in `firsts_`
  std::vector<std::int64_t> folded_;    // rows
};

}  // namespace sextant
