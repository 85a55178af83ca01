// Builds a staged graph operator by operator: finds or makes the version of each input that the
// operator wants, so that consumers that want the same words share one boxing.
#pragma once

#include "compiler/words/boxing_times.h"
#include "compiler/words/stage_facts.h"
#include "compiler/words/staged_graph.h"
#include "compiler/words/tensor_versions.h"
#include "core/base/stop_poll.h"
#include "core/costs/cost_model.h"
#include "core/graphs/logical_graph.h"
#include "core/graphs/operator.h"
#include "sbp/boxing_plans.h"
#include "sbp/inference.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace sextant {

class StageBuilder {
 public:
  // `rates` and `words` by OpId. All arguments outlive the builder.
  StageBuilder(const LogicalGraph& graph, const std::vector<Placement>& placements,
               const std::vector<int>& stage_of_layer,
               const std::vector<int>& virtual_stage_of_layer, const std::vector<Rate>& rates,
               const WordAssignment& words, const BoxingTimes& times, BoxingPlans& plans);

  StagedGraph run(std::int64_t micro_batches, const StopPoll& stop = StopPoll());

 private:
  void add_op(OpId id);
  void add_parameter(OpId id);
  void add_untrained_parameter(OpId id);
  void append_op(OpId id, std::size_t first_input, StagedTensorId parameter);
  StagedTensorId add_output(OpId id, std::size_t index, StagedOpId op);

  const std::vector<Placement>& placements_;
  StageFacts facts_;
  StagedGraph staged_;
  TensorVersions versions_;
};

}  // namespace sextant
