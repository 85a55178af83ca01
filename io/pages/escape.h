// Text of any origin as text of an HTML or SVG document.
#pragma once

#include <string>
#include <string_view>

namespace sextant {

// Inside elements and quoted attribute values: `<>&"'` become entities; bytes that are no UTF-8,
// and control characters but tab and line feed, become U+FFFD.
std::string escaped_html(std::string_view text);

}  // namespace sextant
