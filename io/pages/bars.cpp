// Widths in percent.
#include "io/pages/bars.h"

#include "io/pages/palette.h"

#include <fmt/core.h>

#include <algorithm>

namespace sextant {
namespace {

// Narrower pieces have no room for "12 %".
constexpr double kLeastWithText = 0.07;

std::string width_style(double share) {
  return fmt::format("width:{:.3f}%", 100 * std::clamp(share, 0.0, 1.0));
}

}  // namespace

Markup share_bar(std::span<const BarPiece> pieces, const std::string& description) {
  Markup inner;
  for (const BarPiece& piece : pieces) {
    if (!(piece.share > 0)) continue;
    inner +=
        element("span",
                {{"class", "piece " + colour_class(piece.colour)},
                 {"style", width_style(piece.share)},
                 {"title", fmt::format("{} {:.1f} %", piece.name, 100 * piece.share)}},
                piece.share < kLeastWithText ? Markup()
                                             : Markup(fmt::format("{:.0f} %", 100 * piece.share)));
  }
  return element("div", {{"class", "share-bar"}, {"role", "img"}, {"aria-label", description}},
                 inner);
}

Markup cell_bar(double share, const std::string& text, int colour) {
  return element("span", "cell-bar",
                 element("i", {{"class", colour_class(colour)}, {"style", width_style(share)}})) +
         Markup(text);
}

}  // namespace sextant
