// The frame of a page: one file that loads nothing.
#pragma once

#include "io/pages/markup.h"

#include <string>
#include <string_view>
#include <vector>

namespace sextant {

struct PageLink {
  std::string id;  // of an element of the page
  std::string title;
};

struct PageFrame {
  std::string title;
  std::string subtitle;
  std::vector<PageLink> contents;  // shown at the top, in this order
  std::string footer;
};

// A whole HTML document. Its policy forbids scripts and whatever lies outside of it.
std::string page_document(const PageFrame& frame, const Markup& body);

// A picture file as an <img> that holds it; scripts in an SVG do not run there.
Markup embedded_image(std::string_view media_type, std::string_view bytes,
                      const std::string& description);

// Of pages, in light and in dark.
extern const std::string_view kPageStyle;

}  // namespace sextant
