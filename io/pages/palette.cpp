// Numbers to classes.
#include "io/pages/palette.h"

#include <fmt/core.h>

namespace sextant {

std::string colour_class(int colour) {
  return colour < 0 ? "grey" : fmt::format("c{}", colour % kPaletteSize);
}

Markup legend(std::span<const LegendEntry> entries) {
  Markup items;
  for (const LegendEntry& entry : entries)
    items += element(
        "li", "",
        element("i", entry.is_level ? "swatch dashes" : "swatch " + colour_class(entry.colour),
                Markup()) +
            Markup(entry.name));
  return element("ul", "legend", items);
}

}  // namespace sextant
