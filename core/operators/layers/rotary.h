// How models that go on beyond the length of their training slow rotary positions down.
#pragma once

#include <cstdint>

#ifdef __CUDACC__
#define SEXTANT_ROTARY __host__ __device__
#else
#define SEXTANT_ROTARY
#endif

namespace sextant {

// Pairs turn by `factor` less for each position; with an original length those that turn more than
// `high_turns` times within it turn as they did, those between `low_turns` and these by a mean,
// linear in their turns. Llama 3.1's ("rope_type": "llama3" in transformers, where low_turns is
// low_freq_factor); without an original length "linear".
struct RotaryScaling {
  double factor = 1;
  double low_turns = 0, high_turns = 0;
  std::int64_t original_length = 0;

  bool is_none() const { return factor == 1; }
  bool operator==(const RotaryScaling&) const = default;

  // Radians a position, from those without scaling.
  SEXTANT_ROTARY double scaled(double frequency) const {
    if (factor == 1) return frequency;
    double kept = 0;
    if (original_length > 0) {
      const double turns = static_cast<double>(original_length) * frequency / 6.283185307179586;
      kept = (turns - low_turns) / (high_turns - low_turns);
      kept = kept < 0 ? 0 : kept > 1 ? 1 : kept;
    }
    return kept * frequency + (1 - kept) * frequency / factor;
  }
};

}  // namespace sextant

#undef SEXTANT_ROTARY
