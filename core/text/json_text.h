// JSON values as text and back: the library's writer and parser, compiled once for what includes
// this; they cost three seconds wherever they are called. Only .cpp files that already include
// nlohmann/json.hpp include this.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <cstddef>
#include <string>
#include <string_view>

namespace sextant {

// The library's text of a value: on one line, or with `indent` blanks per level where that is not
// negative. Throws nlohmann's type_error where a text in it is no UTF-8.
std::string json_text(const nlohmann::ordered_json& value, int indent = -1);
// The library's text of a value with texts of others: broken UTF-8 in them is replaced.
std::string lenient_json_text(const nlohmann::ordered_json& value, int indent = -1);
// Throws nlohmann's parse_error. Of the texts of others only headers of safetensors are read with
// it, the rest are JsonDocument's.
nlohmann::ordered_json json_of_text(std::string_view text);

// For people to read and diff: lists and objects whose text has at most `width` characters stay on
// one line; others get one line per element, indented by one blank per level. Ends with a newline.
std::string to_readable_text(const nlohmann::ordered_json& value, std::size_t width = 100);

}  // namespace sextant
