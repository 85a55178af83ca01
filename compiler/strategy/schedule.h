// Pipeline schedules: which cells a stage runs, in which order. A schedule is nothing else; what
// lives how long and who waits for whom follows from the order.
#pragma once

#include "compiler/strategy/strategy.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace sextant {

enum class CellKind : std::uint8_t {
  kForward,     // F
  kBackward,    // B, or B and W together where the schedule does not part them
  kWeightGrad,  // W
};
inline constexpr std::size_t kNumCellKinds = 3;

// One micro-batch of one kind in one chunk of a stage.
struct Cell {
  CellKind kind = CellKind::kForward;
  std::int32_t micro_batch = 0;
  std::int32_t chunk = 0;
  bool operator==(const Cell&) const = default;
};

struct PipelineShape {
  std::int32_t stages = 1;
  std::int32_t micro_batches = 1;
  std::int32_t chunks = 1;  // of layers, per stage
};

bool splits_backward(Schedule schedule);

// Place of a chunk in model order, 0 to stages x chunks - 1: what it makes in forward goes to the
// virtual stage after it. Chunks go round the stages; of zb-v the second ones go back.
int virtual_stage(Schedule schedule, int stages, int stage, int chunk);
struct StageChunk {
  int stage = 0, chunk = 0;
};
StageChunk stage_of_virtual(Schedule schedule, int stages, int virtual_stage);

// Throws Error(kInfeasible) naming what would do: chunks of a schedule that has none, interleaved
// over one chunk or over micro-batches that the stages do not divide.
void require_schedule(Schedule schedule, const PipelineShape& shape);

// All cells of a stage. Micro-batches of a kind and chunk come in order 0, 1, 2, ...
std::vector<Cell> stage_cells(Schedule schedule, const PipelineShape& shape, std::int32_t stage);

}  // namespace sextant
