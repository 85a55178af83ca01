// Colours of a page by number: its style sheet says what each is in light and in dark.
#pragma once

#include "io/pages/markup.h"

#include <span>
#include <string>

namespace sextant {

inline constexpr int kPaletteSize = 8;
inline constexpr int kGreyColour = -1;

// The class that fills (and draws) with the colour: "c0"; numbers beyond the palette begin anew.
std::string colour_class(int colour);

struct LegendEntry {
  std::string name;
  int colour = kGreyColour;
  bool is_level = false;  // a dashed line, without a colour
};

// Names behind squares of their colours.
Markup legend(std::span<const LegendEntry> entries);

}  // namespace sextant
