// How large the step of an optimizer is: a function of its own count of updates, so that a skipped
// step does not advance the schedule and no host has to tell a device what time it is.
#pragma once

#include "core/tensors/attributes.h"

#include <cstdint>
#include <string_view>

namespace sextant {

// Of update 1, 2, ... Attributes: `learning_rate`, [`schedule` constant | linear | cosine],
// [`warm_up` updates], [`total_updates`], [`minimum_rate`]. With w = max(warm_up, 1):
// - up to w: learning_rate update / w, so the first update is not lost and update w is a full one;
// - then constant, or from learning_rate at w to minimum_rate at total_updates along a line or half
//   a cosine, and minimum_rate from there on.
double learning_rate_at(const Attributes& attributes, std::int64_t update);

// Throws Error(kBadInput) naming the operator and the attribute that cannot be.
void require_learning_rate(std::string_view kind, const Attributes& attributes);

}  // namespace sextant
