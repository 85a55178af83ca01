// What part of a training step an operator belongs to, and how often it acts in one step.
#pragma once

#include <cstdint>
#include <string_view>

namespace sextant {

enum class Phase : std::uint8_t {
  kData,           // host actors: loading inputs, reading metrics
  kForward,        // F
  kRecompute,      // forward again, inside backward
  kInputGrad,      // B: gradient that flows to the previous layer
  kWeightGrad,     // W: gradient of a parameter, needed only by the optimizer
  kOptimizer,      // once per step
  kCommunication,  // boxing that belongs to no phase of a layer: transfers between stages
};

std::string_view to_string(Phase phase);
// The reverse of to_string. Throws Error(kBadInput), naming what would do.
Phase parse_phase(std::string_view text);

// Acts in one step.
enum class Rate : std::uint8_t { kPerMicroBatch, kPerStep };

std::string_view to_string(Rate rate);

}  // namespace sextant
