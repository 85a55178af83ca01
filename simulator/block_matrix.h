// A block as a max-plus matrix: what it leaves behind as maxima of sums of what it finds.
#pragma once

#include "core/units.h"
#include "simulator/block_tape.h"

#include <cstdint>
#include <span>
#include <vector>

namespace sextant {

// Sparse: an output is the maximum over its terms of input + delay.
struct MaxPlusTerm {
  std::int64_t delay = 0;
  std::int32_t input = 0;
};

// Inputs: when the host of each place can issue, when each queue is free, when each fence is over.
// Outputs: hosts, queues, exports, and by queue its slack, a bound from below of
//   min over its launches, k-th of their place: (begin - k x launch cost).
// Where the host comes no later than the slacks of its queues, no launch begins later for it.
struct BlockMatrices {
  std::vector<std::int32_t> first_row;   // by template; the rows of all outputs follow each other
  std::vector<std::int32_t> row_begins;  // in `terms`, and one more
  std::vector<MaxPlusTerm> terms;
  // By template its first here; then by place the launch cost of all its launches, and by queue
  // what the slack is more than the queue's own input, at least.
  std::vector<std::int32_t> first_delay;
  std::vector<std::int64_t> delays;
};

// `durations` by BlockTape::timed. Templates of one structure whose launches last equally long
// share a matrix.
BlockMatrices block_matrices(const BlockTape& tape, std::span<const Duration> durations,
                             Duration launch_cost);

}  // namespace sextant
