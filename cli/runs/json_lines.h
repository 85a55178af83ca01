// Files with a JSON document per line, as runs and sweeps write them.
#pragma once

#include "core/text/json_reader.h"

#include <cstddef>
#include <string>
#include <vector>

namespace sextant {

struct JsonLines {
  struct Line {
    std::size_t number = 1;
    JsonDocument document;
  };
  std::vector<Line> lines;
  bool is_cut = false;  // the last line has no end: who wrote it died there; it is left out
};

// Throws Error(kBadInput) with file and line for a line that is no JSON, and where the file cannot
// be read. Empty lines are refused too.
JsonLines read_json_lines(const std::string& path);

}  // namespace sextant
