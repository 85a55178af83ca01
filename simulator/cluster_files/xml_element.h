// XML as a tree of plain values, with the place of each element for refusals.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sextant {

struct XmlElement {
  std::string name;
  std::string place;  // "topo.xml: system.cpu[0].pci[1]"
  std::vector<std::pair<std::string, std::string>> attributes;
  std::vector<XmlElement> children;

  std::optional<std::string> find(std::string_view attribute) const;
  const std::string& at(std::string_view attribute) const;  // refused when missing
  // Refused when it is no integer, or not in the range.
  std::int64_t integer(std::string_view attribute, std::int64_t least, std::int64_t most) const;
  // Throws Error(kBadInput): "<place>: <what>".
  [[noreturn]] void refuse(const std::string& what) const;
};

// The elements at the root. Throws Error(kBadInput) with file and line for text that is no XML, or
// nested deeper than 64.
std::vector<XmlElement> parse_xml(std::string_view text, const std::string& file);

}  // namespace sextant
