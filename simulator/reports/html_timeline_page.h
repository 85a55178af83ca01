// The page that draws a timeline: style and script, with a place for the data.
#pragma once

#include <string_view>

namespace sextant {

extern const std::string_view kHtmlTimelinePage;

}  // namespace sextant
