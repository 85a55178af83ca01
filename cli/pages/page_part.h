// A part of a report: what stands below one heading. And pieces that several parts use.
#pragma once

#include "io/pages/markup.h"

#include <cstddef>
#include <string>
#include <vector>

namespace sextant {

struct PagePart {
  std::string title;
  Markup body;
};

// A number in large type with its name below.
struct Tile {
  std::string value, name;
};
Markup tiles_of(const std::vector<Tile>& tiles);

// A line that a reader must not miss.
Markup warning_of(const std::string& text);
// A line in soft ink.
Markup note_of(const std::string& text);
// "and 12 more rows"; nothing where none is left out.
Markup left_out(std::size_t all, std::size_t shown, const std::string& noun);

// Text of one width: strategies, words, names of operators.
Markup code_of(const std::string& text);

}  // namespace sextant
