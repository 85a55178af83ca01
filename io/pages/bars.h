// Shares as lengths: what a whole consists of, and a number beside the largest of its column.
#pragma once

#include "io/pages/markup.h"

#include <span>
#include <string>
#include <vector>

namespace sextant {

struct BarPiece {
  std::string name;
  double share = 0;  // of the whole, 0 to 1
  int colour = 0;
};

// Pieces side by side, with names and percentages where they find room. Shares may leave a rest.
Markup share_bar(std::span<const BarPiece> pieces, const std::string& description);

// A bar of that share of a cell, with the text behind it.
Markup cell_bar(double share, const std::string& text, int colour = 0);

}  // namespace sextant
