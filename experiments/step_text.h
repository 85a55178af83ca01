// A training step on one device in one word, as benchmarks take it: "gpt2-medium:16x1024".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace sextant {

struct StepText {
  std::string model;  // as everywhere; it may have colons of its own
  std::int64_t batch = 1, sequence = 1;
  std::int64_t layers = 0;  // 0: the model's
};

// "MODEL:BATCHxSEQUENCE" or "MODEL:BATCHxSEQUENCE:LAYERS". Throws Error(kUsage) naming the text.
StepText parse_step(std::string_view text);

}  // namespace sextant
