// Refused before a GPU is asked for.
#include "cli/gpu_list.h"

#include "core/base/check.h"
#include "core/text/split_text.h"

#include <algorithm>

namespace sextant {

std::vector<int> parse_gpus(const std::string& text) {
  std::vector<int> gpus;
  if (text.empty()) return gpus;
  for (const std::string_view word : split_text(text, ',')) {
    const bool is_number = !word.empty() && word.size() < 5 &&
                           word.find_first_not_of("0123456789") == std::string::npos;
    require(is_number, ErrorCode::kUsage,
            "--gpus '{}': '{}' is no number of a GPU; wanted is a list as 0,1", text, word);
    const int gpu = std::stoi(std::string(word));
    require(std::find(gpus.begin(), gpus.end(), gpu) == gpus.end(), ErrorCode::kUsage,
            "--gpus '{}': GPU {} is named twice", text, gpu);
    gpus.push_back(gpu);
  }
  return gpus;
}

}  // namespace sextant
