// Lines by their ends.
#include "cli/runs/json_lines.h"

#include <fmt/core.h>

#include <string_view>

namespace sextant {

JsonLines read_json_lines(const std::string& path) {
  const std::string text = read_text_file(path);
  JsonLines read;
  std::string_view rest = text;
  for (std::size_t number = 1; !rest.empty(); ++number) {
    const std::size_t end = rest.find('\n');
    read.is_cut = end == std::string_view::npos;
    if (read.is_cut) break;
    read.lines.push_back(
        {number, JsonDocument(rest.substr(0, end), fmt::format("{}:{}", path, number))});
    rest.remove_prefix(end + 1);
  }
  return read;
}

}  // namespace sextant
