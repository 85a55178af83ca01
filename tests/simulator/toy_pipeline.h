// Pipelines with data parallelism, written by hand: the schedules of the books, timed exactly.
#pragma once

#include "core/graphs/physical_graph.h"

#include <cstdint>
#include <vector>

namespace sextant {

enum class ToySchedule : std::uint8_t { kGPipe, kOneFOneB };

struct ToyPipeline {
  // By stage, picoseconds of one micro-batch.
  std::vector<std::int64_t> forward, backward;
  std::int32_t micro_batches = 1;
  std::int32_t replicas = 1;
  ToySchedule schedule = ToySchedule::kOneFOneB;
  std::int64_t optimizer = 0;             // picoseconds, once per step
  std::int64_t gradient_bytes = 0;        // of the all_reduce over replicas, when there are several
  bool launch_groups = false;             // a send and the receive beside it, with the same peer
  std::int32_t activation_registers = 0;  // 0: as many as micro-batches
};

// Ranks: replica fastest, then stage.
PhysicalGraph make_toy_pipeline(const ToyPipeline& pipeline);

}  // namespace sextant
