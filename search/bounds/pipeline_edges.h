// Where a stage begins with each of its chunks, and from when on the gradients of a chunk are
// complete: what is exchanged once per step stands before the one and behind the other.
#pragma once

#include "compiler/strategy/schedule.h"

#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

namespace sextant {

// Cells of a stage, by chunk.
struct CellCounts {
  std::vector<std::int32_t> forward, backward, weight_grad;
  bool operator==(const CellCounts&) const = default;
};

// A head ends with the first forward cell of a chunk, and has the chunks that have begun by then,
// this one included. A tail begins with the cell that completes the gradients of a chunk, and has
// this chunk and those that are complete later.
struct StageEdge {
  CellCounts cells;
  std::vector<bool> chunks;
  bool operator==(const StageEdge&) const = default;
};
struct StageEdges {
  std::vector<StageEdge> heads, tails;  // every head is over before any tail begins
  bool operator==(const StageEdges&) const = default;
};

// By stage.
std::vector<StageEdges> pipeline_edges(Schedule schedule, const PipelineShape& shape);

// The same, remembered. From some rounds of the pipeline on more micro-batches change neither head
// nor tail.
class PipelineEdgesTable {
 public:
  const std::vector<StageEdges>& of(Schedule schedule, const PipelineShape& shape);

 private:
  std::map<std::tuple<Schedule, std::int32_t, std::int32_t, std::int32_t>, std::vector<StageEdges>>
      known_;
};

}  // namespace sextant
