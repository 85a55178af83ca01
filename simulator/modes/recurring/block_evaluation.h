// Steps evaluated block by block. Exact, or nothing: it proves on the way that the window of
// unfinished launches changes no begin and no end that its matrices do not know of.
#pragma once

#include "actor/tapes/tape.h"
#include "core/base/units.h"
#include "core/costs/cost_model.h"
#include "simulator/modes/recurring/block_tape.h"

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace sextant {

// By BlockTape::timed, rounded where all durations are.
std::vector<Duration> block_durations(const BlockTape& tape, const PhysicalGraph& graph,
                                      const CostModel& cost, const NetworkModel& network);

// Ends of steps, as the tape has them (TapeTimes::step_end). Nothing where the window may decide
// when something begins, or where calls of one meeting last differently: then the tape has to say.
std::optional<std::vector<Time>> evaluate_blocks(const BlockTape& tape,
                                                 std::span<const Duration> durations,
                                                 Duration launch_cost, std::int64_t steps);

}  // namespace sextant
