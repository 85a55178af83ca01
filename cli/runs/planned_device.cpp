// Devices are known by their names alone.
#include "cli/runs/planned_device.h"

#include <algorithm>
#include <cctype>
#include <string>
#include <vector>

namespace sextant {
namespace {

// Runs of letters and digits, in lower case.
std::vector<std::string> lower_words(std::string_view text) {
  std::vector<std::string> words(1);
  for (const char letter : text) {
    const auto byte = static_cast<unsigned char>(letter);
    if (std::isalnum(byte) != 0)
      words.back() += static_cast<char>(std::tolower(byte));
    else if (!words.back().empty())
      words.emplace_back();
  }
  if (words.back().empty()) words.pop_back();
  return words;
}

}  // namespace

bool is_planned_device(std::string_view backend, const DeviceKind& planned,
                       std::string_view devices) {
  const std::vector<std::string> wanted = lower_words(planned.name), used = lower_words(devices);
  const bool is_cpu = !wanted.empty() && wanted.front().starts_with("cpu");
  if (backend == "cpu" || is_cpu) return backend == "cpu" && is_cpu;
  const auto model = std::find_if(wanted.begin(), wanted.end(), [](const std::string& word) {
    return word.find_first_of("0123456789") != std::string::npos;
  });
  return model != wanted.end() && std::find(used.begin(), used.end(), *model) != used.end();
}

}  // namespace sextant
