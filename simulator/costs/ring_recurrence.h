// When the members of a ring are done if they do not arrive together. A step of a ring waits for
// two things: the member's own step before, and that of the neighbour behind it.
//
//   t(i, 0) = arrival of member i
//   t(i, s) = max(t(i, s-1), t(i-1, s-1)) + step
//
// A step adds the same to all, so t(i, s) = s step + the latest arrival among member i and the s
// members behind it: a sliding maximum. From members - 1 steps on that is everybody's, which is why
// the network model's "all complete together after the last arrival" is exact for rings of equal
// steps, all_gather, reduce_scatter and all_reduce alike.
#pragma once

#include "core/base/units.h"

#include <cstdint>
#include <span>

namespace sextant {

// Completions after `steps` steps, in O(members). `done` has as many entries as `arrivals`.
void ring_completions(std::span<const Time> arrivals, Duration step, std::int64_t steps,
                      std::span<Time> done);

// The same by the recurrence, step by step: the oracle.
void ring_completions_by_steps(std::span<const Time> arrivals, Duration step, std::int64_t steps,
                               std::span<Time> done);

// Where hops differ: `hops[i]` is what member i needs for a step, t(i, s) = max(t(i, s-1),
// t(i-1, s-1)) + hops[i]. One pass over all members per step, several steps per pass over memory.
// Times are exact as long as all of them are within 2^53 ps (2.5 h) of the first arrival; throws
// Error(kUsage) otherwise.
void ring_completions(std::span<const Time> arrivals, std::span<const Duration> hops,
                      std::int64_t steps, std::span<Time> done);
void ring_completions_by_steps(std::span<const Time> arrivals, std::span<const Duration> hops,
                               std::int64_t steps, std::span<Time> done);

}  // namespace sextant
