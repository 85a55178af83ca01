// Names of phases and rates.
#include "core/graphs/phase.h"

#include "core/base/check.h"

#include <array>

namespace sextant {

std::string_view to_string(Phase phase) {
  switch (phase) {
    case Phase::kData:
      return "data";
    case Phase::kForward:
      return "forward";
    case Phase::kRecompute:
      return "recompute";
    case Phase::kInputGrad:
      return "input_grad";
    case Phase::kWeightGrad:
      return "weight_grad";
    case Phase::kOptimizer:
      return "optimizer";
    case Phase::kCommunication:
      return "communication";
  }
  return "?";
}

Phase parse_phase(std::string_view text) {
  constexpr std::array kAll = {Phase::kData,         Phase::kForward,    Phase::kRecompute,
                               Phase::kInputGrad,    Phase::kWeightGrad, Phase::kOptimizer,
                               Phase::kCommunication};
  for (const Phase phase : kAll)
    if (text == to_string(phase)) return phase;
  fail(ErrorCode::kBadInput,
       "'{}' is not a phase: wanted data, forward, recompute, input_grad, weight_grad, optimizer "
       "or communication",
       text);
}

std::string_view to_string(Rate rate) {
  switch (rate) {
    case Rate::kPerMicroBatch:
      return "per_micro_batch";
    case Rate::kPerStep:
      return "per_step";
  }
  return "?";
}

}  // namespace sextant
