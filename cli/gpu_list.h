// `--gpus 0,1`, as several verbs read it.
#pragma once

#include <string>
#include <vector>

namespace sextant {

// Ordinals in the order given; empty for an empty text. Throws Error(kUsage) for what is no number
// and for a GPU that is named twice.
std::vector<int> parse_gpus(const std::string& text);

}  // namespace sextant
