// Pipeline schedules: which cells a stage runs, in which order. A schedule is nothing else; what
// lives how long and who waits for whom follows from the order.
#pragma once

#include "compiler/strategy.h"

#include <cstdint>
#include <vector>

namespace sextant {

enum class CellKind : std::uint8_t {
  kForward,     // F
  kBackward,    // B, or B and W together where the schedule does not part them
  kWeightGrad,  // W
};

// One micro-batch of one kind on one stage.
struct Cell {
  CellKind kind = CellKind::kForward;
  std::int32_t micro_batch = 0;
  bool operator==(const Cell&) const = default;
};

bool splits_backward(Schedule schedule);

// All cells of a stage. Micro-batches of a kind come in order 0, 1, 2, ...
std::vector<Cell> stage_cells(Schedule schedule, std::int32_t num_stages, std::int32_t stage,
                              std::int32_t micro_batches);

}  // namespace sextant
