// Prints a JSON value with line breaks only where a line would be too long.
#include "core/json_text.h"

#include <nlohmann/json.hpp>

namespace sextant {
namespace {

using Json = nlohmann::ordered_json;

// Appends the text of `value` on one line; gives up, leaving `text` as it was, when it is longer
// than `room`. So that long lists are not printed once per level around them, only what fits is.
bool append_short(const Json& value, std::size_t room, std::string& text) {
  const std::size_t begin = text.size();
  const auto fits = [&] { return text.size() - begin <= room; };
  const auto give_up = [&] {
    text.resize(begin);
    return false;
  };
  if (!value.is_structured()) {
    text += value.dump();
    return fits() || give_up();
  }
  text += value.is_object() ? '{' : '[';
  bool is_first = true;
  for (const auto& [key, element] : value.items()) {
    if (!is_first) text += ", ";
    is_first = false;
    if (value.is_object()) text += Json(key).dump() + ": ";
    if (!fits() || !append_short(element, room - (text.size() - begin), text)) return give_up();
  }
  text += value.is_object() ? '}' : ']';
  return fits() || give_up();
}

void append(const Json& value, std::size_t width, std::size_t indent, std::string& text) {
  const std::size_t room = width > indent ? width - indent : 0;
  if (append_short(value, room, text)) return;
  if (!value.is_structured()) {
    text += value.dump();
    return;
  }
  text += value.is_object() ? '{' : '[';
  bool is_first = true;
  for (const auto& [key, element] : value.items()) {
    if (!is_first) text += ',';
    is_first = false;
    text += '\n';
    text.append(indent + 1, ' ');
    if (value.is_object()) text += Json(key).dump() + ": ";
    append(element, width, indent + 1, text);
  }
  text += '\n';
  text.append(indent, ' ');
  text += value.is_object() ? '}' : ']';
}

}  // namespace

std::string to_readable_text(const Json& value, std::size_t width) {
  std::string text;
  append(value, width, 0, text);
  text += '\n';
  return text;
}

}  // namespace sextant
