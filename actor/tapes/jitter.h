// Jitter of many launches at once; the rule is launch_time.h's.
#pragma once

#include "core/base/units.h"

#include <cstdint>
#include <span>

namespace sextant {

// out[i] = jittered(durations[i], jitter, seed, ranks[i], runs[i], step), durations not negative.
void jitter_durations(std::span<const Duration> durations, std::span<const std::int32_t> ranks,
                      std::span<const std::int32_t> runs, double jitter, std::uint64_t seed,
                      std::int64_t step, std::span<Duration> out);

}  // namespace sextant
