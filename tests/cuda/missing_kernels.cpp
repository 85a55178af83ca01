// Lines are "what: reason" or "refusal 'text': reason"; lines that begin with # are comments.
#include "tests/cuda/missing_kernels.h"

#include "core/base/check.h"

#include <fstream>
#include <string_view>
#include <utility>

namespace sextant {
namespace {

using Entries = std::map<std::string, std::string>;

constexpr std::string_view kRefusal = "refusal '", kEndOfText = "': ", kEndOfName = ": ";

// The text between the prefix and the separator, and what follows.
std::pair<std::string, std::string> cut(const std::string& line, std::string_view prefix,
                                        std::string_view separator) {
  const std::size_t end = line.find(separator, prefix.size());
  require(end != std::string::npos, ErrorCode::kBadInput,
          "missing_kernels.txt: '{}', wanted 'what: reason' or \"refusal 'text': reason\"", line);
  return {line.substr(prefix.size(), end - prefix.size()), line.substr(end + separator.size())};
}

struct Lists {
  Entries kernels, limits;
};

const Lists& lists() {
  static const Lists read = [] {
    const std::string path = SEXTANT_SOURCE_ROOT "/tests/cuda/missing_kernels.txt";
    std::ifstream file(path);
    require(file.good(), ErrorCode::kBadInput, "cannot read {}", path);
    Lists made;
    for (std::string line; std::getline(file, line);) {
      if (line.empty() || line.starts_with('#')) continue;
      if (line.starts_with(kRefusal))
        made.limits.insert(cut(line, kRefusal, kEndOfText));
      else
        made.kernels.insert(cut(line, "", kEndOfName));
    }
    return made;
  }();
  return read;
}

}  // namespace

const Entries& missing_kernels() { return lists().kernels; }
const Entries& stated_limits() { return lists().limits; }

}  // namespace sextant
