// XML through Boost's property trees.
#include "simulator/cluster_files/xml_element.h"

#include "core/base/check.h"
#include "core/text/json_reader.h"

#include <boost/property_tree/ptree.hpp>
#include <boost/property_tree/xml_parser.hpp>

#include <algorithm>
#include <charconv>
#include <map>
#include <sstream>

namespace sextant {

namespace {

namespace pt = boost::property_tree;

// Where the tag that opens at `at` ends: a '>' inside quotes is none.
std::size_t end_of_tag(std::string_view text, std::size_t at) {
  char quote = 0;
  for (; at < text.size(); ++at) {
    if (quote != 0) {
      if (text[at] == quote) quote = 0;
    } else if (text[at] == '"' || text[at] == '\'') {
      quote = text[at];
    } else if (text[at] == '>') {
      return at;
    }
  }
  return text.size();
}

// The parser calls itself for each level, so depth is limited before it sees the text.
void require_shallow(std::string_view text, const std::string& file) {
  int depth = 0;
  for (std::size_t at = text.find('<'); at < text.size(); at = text.find('<', at)) {
    if (text.substr(at, 4) == "<!--") {
      at = std::min(text.find("-->", at), text.size());
      continue;
    }
    const std::size_t end = end_of_tag(text, at);
    const bool closes = text.substr(at, 2) == "</";
    const bool is_element = at + 1 < text.size() && text[at + 1] != '!' && text[at + 1] != '?';
    const bool is_whole = end > at && text[end - 1] == '/';
    if (closes) --depth;
    if (is_element && !closes && !is_whole) ++depth;
    require(depth <= kMaxJsonDepth, ErrorCode::kBadInput, "{}: nested deeper than {}", file,
            kMaxJsonDepth);
    at = end;
  }
}

XmlElement element_of(const std::string& name, const pt::ptree& tree, const std::string& place) {
  XmlElement element{.name = name, .place = place, .attributes = {}, .children = {}};
  std::map<std::string, int> counts;
  const char separator = place.ends_with(": ") ? 0 : '.';
  for (const auto& [key, child] : tree) {
    if (key == "<xmlattr>") {
      for (const auto& [attribute, value] : child)
        element.attributes.emplace_back(attribute, value.data());
    } else if (key != "<xmlcomment>") {
      std::string inside = place;
      if (separator != 0) inside += separator;
      inside += fmt::format("{}[{}]", key, counts[key]++);
      element.children.push_back(element_of(key, child, inside));
    }
  }
  return element;
}

}  // namespace

std::optional<std::string> XmlElement::find(std::string_view attribute) const {
  for (const auto& [key, value] : attributes)
    if (key == attribute) return value;
  return std::nullopt;
}

const std::string& XmlElement::at(std::string_view attribute) const {
  for (const auto& [key, value] : attributes)
    if (key == attribute) return value;
  refuse(fmt::format("the attribute '{}' is missing", attribute));
}

std::int64_t XmlElement::integer(std::string_view attribute, std::int64_t least,
                                 std::int64_t most) const {
  const std::string& text = at(attribute);
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < least || value > most)
    refuse(fmt::format("{} is '{}', wanted {} to {}", attribute, text, least, most));
  return value;
}

void XmlElement::refuse(const std::string& what) const {
  throw Error(ErrorCode::kBadInput, place + ": " + what);
}

std::vector<XmlElement> parse_xml(std::string_view text, const std::string& file) {
  require_shallow(text, file);
  std::istringstream stream{std::string(text)};
  pt::ptree tree;
  try {
    pt::read_xml(stream, tree, pt::xml_parser::no_comments);
  } catch (const pt::xml_parser_error& error) {
    fail(ErrorCode::kBadInput, "{}: line {}: {}", file, error.line(), error.message());
  }
  return element_of("", tree, file + ": ").children;
}

}  // namespace sextant
