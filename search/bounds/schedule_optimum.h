// The shortest pipeline schedule there is, by branch and bound over the order of F, B and W cells:
// the measure of the templates in compiler/strategy/schedule.h, and the proof that none is shorter.
#pragma once

#include "compiler/strategy/schedule.h"

#include <cstdint>
#include <optional>
#include <vector>

namespace sextant {

// Equal stages and micro-batches; times are whole numbers of any unit.
struct PipelineProblem {
  PipelineShape shape;
  bool v_shape = false;  // the second chunk of a stage is on the way back, as in zb-v
  std::int64_t forward = 1, backward = 1;  // of one chunk
  std::int64_t weight_grad = 0;            // 0: no W cells, B is the whole backward
  std::int64_t transfer = 0;               // between two stages, beside any computation
  // Most activations of one chunk that a stage may hold, from the start of F to the end of the cell
  // that reads them last.
  std::int32_t memory = 1 << 20;

  bool has_weight_grad() const { return weight_grad > 0; }
};

using PipelineOrder = std::vector<std::vector<Cell>>;  // by stage

// The order of a template; its chunks and whether it parts W must be those of the problem.
PipelineOrder template_order(const PipelineProblem& problem, Schedule schedule);

// End of the last cell when every stage runs its cells in this order, each as soon as it can;
// nothing when the stages wait for each other.
std::optional<std::int64_t> makespan_of(const PipelineProblem& problem, const PipelineOrder& order);

// Chunk activations that a stage holds at most.
std::int32_t peak_of(const PipelineProblem& problem, const std::vector<Cell>& cells);

struct ScheduleOptimum {
  std::int64_t lower_bound = 0;  // proven
  std::int64_t makespan = 0;     // of `order`; equal to the bound unless the search was cut short
  PipelineOrder order;
  std::int64_t nodes = 0;
  bool is_proven() const { return lower_bound == makespan; }
};

// Throws Error(kUsage) for shapes and times without meaning. Micro-batches are equal, so those of a
// kind and chunk come in order on every stage without loss.
ScheduleOptimum find_optimum(const PipelineProblem& problem, std::int64_t max_nodes = 2'000'000);

}  // namespace sextant
