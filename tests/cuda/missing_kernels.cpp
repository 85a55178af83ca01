// Lines are "what: reason"; lines that begin with # are comments.
#include "tests/cuda/missing_kernels.h"

#include "core/check.h"

#include <fstream>

namespace sextant {

const std::map<std::string, std::string>& missing_kernels() {
  static const std::map<std::string, std::string> entries = [] {
    const std::string path = SEXTANT_SOURCE_ROOT "/tests/cuda/missing_kernels.txt";
    std::ifstream file(path);
    require(file.good(), ErrorCode::kBadInput, "cannot read {}", path);
    std::map<std::string, std::string> read;
    for (std::string line; std::getline(file, line);) {
      if (line.empty() || line.starts_with('#')) continue;
      const std::size_t colon = line.find(": ");
      require(colon != std::string::npos, ErrorCode::kBadInput, "{}: '{}', wanted 'what: reason'",
              path, line);
      read[line.substr(0, colon)] = line.substr(colon + 2);
    }
    return read;
  }();
  return entries;
}

}  // namespace sextant
