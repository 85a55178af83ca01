// The number that ends the first word.
#include "cli/layer_names.h"

#include <cctype>
#include <cstddef>

namespace sextant {

// Digits that end the first word; not those behind a colon, which number an operator's results.
std::string without_layer_number(const std::string& name) {
  std::size_t dot = name.find('.');
  if (dot == std::string::npos) dot = name.size();
  std::size_t digits = dot;
  while (digits > 0 && std::isdigit(static_cast<unsigned char>(name[digits - 1])) != 0) --digits;
  if (digits == dot || digits == 0 || name[digits - 1] == ':') return name;
  return name.substr(0, digits) + "*" + name.substr(dot);
}

}  // namespace sextant
