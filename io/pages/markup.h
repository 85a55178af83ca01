// HTML as a value that is well formed: elements hold text and elements, and text is escaped.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace sextant {

// An attribute of an element. Both live as long as the call that takes them; the value is escaped,
// the name is a literal of ours.
struct HtmlAttribute {
  std::string_view name;
  std::string value;
};

class Markup {
 public:
  Markup() = default;
  // Text, escaped.
  explicit Markup(std::string_view text);

  Markup& operator+=(const Markup& more);
  friend Markup operator+(Markup first, const Markup& second) { return first += second; }

  bool is_empty() const { return html_.empty(); }
  const std::string& html() const { return html_; }

 private:
  friend Markup element(std::string_view, const std::vector<HtmlAttribute>&, const Markup&);
  friend Markup void_element(std::string_view, const std::vector<HtmlAttribute>&);
  std::string html_;
};

// "<tag name="value">inner</tag>"; tags and names of attributes are literals of ours.
Markup element(std::string_view tag, const std::vector<HtmlAttribute>& attributes,
               const Markup& inner = {});
// An element that has a class and no other attribute; no class: none at all.
Markup element(std::string_view tag, std::string_view css_class, const Markup& inner);
Markup text_element(std::string_view tag, std::string_view css_class, std::string_view text);
// An element that has no inside: "<img src=...>".
Markup void_element(std::string_view tag, const std::vector<HtmlAttribute>& attributes);

// A paragraph of text.
Markup paragraph(std::string_view text);
// One that opens when it is asked to.
Markup foldable(std::string_view title, const Markup& inner, bool is_open = false);

}  // namespace sextant
