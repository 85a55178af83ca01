// Where the step goes: every instant of a rank belongs to exactly one part.
#pragma once

#include "core/units.h"
#include "simulator/timeline.h"

#include <array>
#include <cstdint>

namespace sextant {

// In order of precedence: an instant belongs to the first that applies.
enum class TimePart : std::uint8_t {
  kOptimizer,             // compute of the optimizer phase
  kCompute,               // any other compute
  kExposedCommunication,  // a communication is in progress and all members have arrived
  kHost,                  // idle, and everything issued so far is over
  kBubble,                // all else: waiting for data, credits, or a late member
};
inline constexpr std::size_t kNumTimeParts = 5;

using PartDurations = std::array<Duration, kNumTimeParts>;

// Parts of one period of the steady state; they sum to `period` exactly. A step may reach over the
// period's border (stages overlap steps), so its runs are folded onto one period.
PartDurations parts_of(const RankTimeline& timeline, Duration period);

}  // namespace sextant
