// The one place where tags are written.
#include "io/pages/markup.h"

#include "io/pages/escape.h"

namespace sextant {
namespace {

std::string opening(std::string_view tag, const std::vector<HtmlAttribute>& attributes) {
  std::string html = "<";
  html += tag;
  for (const HtmlAttribute& attribute : attributes) {
    html += ' ';
    html += attribute.name;
    html += "=\"" + escaped_html(attribute.value) + '"';
  }
  return html + '>';
}

}  // namespace

Markup::Markup(std::string_view text) : html_(escaped_html(text)) {}

Markup& Markup::operator+=(const Markup& more) {
  html_ += more.html_;
  return *this;
}

Markup element(std::string_view tag, const std::vector<HtmlAttribute>& attributes,
               const Markup& inner) {
  Markup made;
  made.html_ = opening(tag, attributes) + inner.html_ + "</";
  made.html_ += tag;
  made.html_ += '>';
  return made;
}

Markup element(std::string_view tag, std::string_view css_class, const Markup& inner) {
  if (css_class.empty()) return element(tag, std::vector<HtmlAttribute>{}, inner);
  return element(tag, std::vector<HtmlAttribute>{{"class", std::string(css_class)}}, inner);
}

Markup text_element(std::string_view tag, std::string_view css_class, std::string_view text) {
  return element(tag, css_class, Markup(text));
}

Markup void_element(std::string_view tag, const std::vector<HtmlAttribute>& attributes) {
  Markup made;
  made.html_ = opening(tag, attributes);
  return made;
}

Markup paragraph(std::string_view text) { return text_element("p", "", text); }

Markup foldable(std::string_view title, const Markup& inner, bool is_open) {
  std::vector<HtmlAttribute> attributes;
  if (is_open) attributes.push_back({"open", ""});
  return element("details", attributes, text_element("summary", "", title) + inner);
}

}  // namespace sextant
