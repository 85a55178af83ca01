// A block as a max-plus matrix: what it leaves behind as maxima of sums of what it finds.
#pragma once

#include "core/base/units.h"
#include "simulator/modes/recurring/block_tape.h"
#include "simulator/modes/recurring/max_plus.h"

#include <cstdint>
#include <span>
#include <vector>

namespace sextant {

// Inputs: when the host of each place can issue, when each queue is free, when each fence is over.
// Outputs: hosts, queues, exports. By queue its slack, a bound from below of
//   min over its launches, k-th of their place: (begin - k x launch cost).
// Where the host comes no later than the slacks of its queues, no launch begins later for it.
struct BlockMatrix {
  std::int32_t num_places = 0, num_queues = 0, num_fences = 0, num_exports = 0;
  MaxPlusMaps::Map outputs = {}, slacks = {};
  // In BlockMatrices::delays: by place the launch cost of all its launches, then by queue what the
  // slack is more than the queue's own input, at least.
  std::int32_t first_delay = 0;
  // Twins: inputs that places have one each of. Where they are equal, so are most outputs, and a
  // smaller map from one of each kind says them all. In BlockMatrices::twins: by input the first of
  // its kind, then the firsts, then by output its place in what the smaller map says.
  std::int32_t first_twin = -1;  // -1: one place
  MaxPlusMaps::Map folded = {};

  std::int32_t num_inputs() const { return num_places + num_queues + num_fences; }
  std::int32_t num_outputs() const { return num_places + num_queues + num_exports; }
};

struct BlockMatrices {
  std::vector<BlockMatrix> of_template;
  MaxPlusMaps maps;
  std::vector<std::int64_t> delays;
  std::vector<std::int32_t> twins;
};

// `durations` by BlockTape::timed. Templates of one structure whose launches last equally long
// share a matrix.
BlockMatrices block_matrices(const BlockTape& tape, std::span<const Duration> durations,
                             Duration launch_cost);

}  // namespace sextant
