// JSON text that people can read and diff: values that fit stand on one line. Only .cpp files that
// already include nlohmann/json.hpp include this.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <cstddef>
#include <string>

namespace sextant {

// Lists and objects whose text has at most `width` characters stay on one line; others get one
// line per element, indented by one blank per level. Ends with a newline.
std::string to_readable_text(const nlohmann::ordered_json& value, std::size_t width = 100);

}  // namespace sextant
