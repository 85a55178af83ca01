// Small pieces.
#include "cli/pages/page_part.h"

#include "core/text/counted_text.h"

namespace sextant {

Markup tiles_of(const std::vector<Tile>& tiles) {
  Markup all;
  for (const Tile& tile : tiles)
    all += element("div", "tile",
                   text_element("b", "", tile.value) + text_element("span", "", tile.name));
  return element("div", "tiles", all);
}

Markup warning_of(const std::string& text) { return text_element("p", "warning", text); }
Markup note_of(const std::string& text) { return text_element("p", "note", text); }

Markup left_out(std::size_t all, std::size_t shown, const std::string& noun) {
  return shown >= all ? Markup() : note_of("and " + counted(all - shown, "more " + noun));
}

Markup code_of(const std::string& text) { return text_element("span", "code", text); }

}  // namespace sextant
