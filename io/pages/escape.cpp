// UTF-8 by the table of RFC 3629: no surrogates, nothing longer than it has to be.
#include "io/pages/escape.h"

#include <cstddef>
#include <cstdint>

namespace sextant {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

// Bytes of the character that begins at `at`; 0: there is none.
std::size_t utf8_length(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) {
    return at + i < text.size() ? static_cast<std::uint8_t>(text[at + i]) : std::uint8_t{0};
  };
  const auto is_between = [&](std::size_t i, int low, int high) {
    return byte(i) >= low && byte(i) <= high;
  };
  const auto follows = [&](std::size_t i) { return is_between(i, 0x80, 0xBF); };
  const std::uint8_t first = byte(0);
  if (first < 0x80) return 1;
  if (is_between(0, 0xC2, 0xDF)) return follows(1) ? 2 : 0;
  if (is_between(0, 0xE0, 0xEF)) {
    const bool second = is_between(1, first == 0xE0 ? 0xA0 : 0x80, first == 0xED ? 0x9F : 0xBF);
    return second && follows(2) ? 3 : 0;
  }
  if (is_between(0, 0xF0, 0xF4)) {
    const bool second = is_between(1, first == 0xF0 ? 0x90 : 0x80, first == 0xF4 ? 0x8F : 0xBF);
    return second && follows(2) && follows(3) ? 4 : 0;
  }
  return 0;
}

std::string_view entity_of(char c) {
  switch (c) {
    case '<':
      return "&lt;";
    case '>':
      return "&gt;";
    case '&':
      return "&amp;";
    case '"':
      return "&quot;";
    case '\'':
      return "&#39;";
    default:
      return {};
  }
}

bool is_control(char c) {
  const auto byte = static_cast<std::uint8_t>(c);
  return (byte < 0x20 && c != '\t' && c != '\n') || byte == 0x7F;
}

}  // namespace

std::string escaped_html(std::string_view text) {
  std::string out;
  out.reserve(text.size() + text.size() / 8);
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = utf8_length(text, at);
    if (length == 0 || (length == 1 && is_control(text[at])))
      out += kReplacement;
    else if (const std::string_view entity = entity_of(text[at]); !entity.empty())
      out += entity;
    else
      out += text.substr(at, length);
    at += length == 0 ? 1 : length;
  }
  return out;
}

}  // namespace sextant
