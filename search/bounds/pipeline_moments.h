// What lives on a stage at the worst moments between two cells of its schedule: memory bounds
// multiply these counts with bytes.
#pragma once

#include "compiler/strategy/schedule.h"

#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

namespace sextant {

// Between two cells of a stage. By chunk: micro-batches whose forward is over and whose backward
// has not begun, whether gradients of the chunk's parameters add up already, and micro-batches
// whose backward is over and whose weight gradients have not begun.
struct StageMoment {
  std::vector<std::int32_t> in_flight;
  std::vector<bool> has_gradients;
  std::vector<std::int32_t> awaiting = std::vector<std::int32_t>(in_flight.size());
};

// By stage: of each number of chunks with gradients, the moment with most micro-batches in flight,
// and the one with most that await their weight gradients.
// Every entry is a moment of the schedule, so memory that it counts is needed.
using PipelineMoments = std::vector<std::vector<StageMoment>>;
PipelineMoments pipeline_moments(Schedule schedule, const PipelineShape& shape);

// The same, remembered.
class PipelineMomentsTable {
 public:
  const PipelineMoments& of(Schedule schedule, const PipelineShape& shape);

 private:
  std::map<std::tuple<Schedule, std::int32_t, std::int32_t, std::int32_t>, PipelineMoments> known_;
};

}  // namespace sextant
