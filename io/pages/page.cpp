// Head, heading, contents, body, footer.
#include "io/pages/page.h"

#include "io/pages/escape.h"

#include <fmt/core.h>

#include <cstddef>
#include <cstdint>

namespace sextant {
namespace {

// RFC 4648, with padding.
std::string base64(std::string_view bytes) {
  constexpr std::string_view kLetters =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t at = 0; at < bytes.size(); at += 3) {
    const auto byte = [&](std::size_t i) {
      return at + i < bytes.size() ? static_cast<std::uint8_t>(bytes[at + i]) : 0U;
    };
    const std::uint32_t group = (byte(0) << 16) | (byte(1) << 8) | byte(2);
    for (std::size_t i = 0; i < 4; ++i)
      out += i > bytes.size() - at ? '=' : kLetters[(group >> (18 - 6 * i)) & 63U];
  }
  return out;
}

Markup contents_of(const std::vector<PageLink>& links) {
  if (links.empty()) return {};
  Markup items;
  for (const PageLink& link : links)
    items += element("li", "", element("a", {{"href", "#" + link.id}}, Markup(link.title)));
  return element("nav", {{"aria-label", "contents"}}, element("ul", "", items));
}

}  // namespace

std::string page_document(const PageFrame& frame, const Markup& body) {
  const Markup head =
      element("header", "",
              text_element("h1", "", frame.title) + text_element("p", "subtitle", frame.subtitle) +
                  contents_of(frame.contents));
  const Markup foot = element("footer", "", paragraph(frame.footer));
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
      "'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta name=\"color-scheme\" content=\"light dark\">\n"
      "<title>{}</title>\n<style>\n{}</style>\n</head>\n<body>\n{}\n<main>{}</main>\n{}\n</body>\n"
      "</html>\n",
      escaped_html(frame.title), kPageStyle, head.html(), body.html(), foot.html());
}

Markup embedded_image(std::string_view media_type, std::string_view bytes,
                      const std::string& description) {
  return void_element("img",
                      {{"class", "picture-file"},
                       {"alt", description},
                       {"src", fmt::format("data:{};base64,{}", media_type, base64(bytes))}});
}

}  // namespace sextant
