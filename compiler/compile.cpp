// The whole compiler in one call.
#include "compiler/expand.h"
#include "compiler/stage.h"

namespace sextant {

PhysicalGraph compile(const LogicalGraph& training, const Strategy& strategy,
                      std::int64_t global_batch, const CostModel& cost, const NetworkModel& network,
                      ExpandOptions options) {
  options.schedule = strategy.schedule;
  const StagedGraph staged =
      make_staged_graph(training, strategy, num_micro_batches(strategy, global_batch), &network);
  return expand(staged, training.registry(), cost, network, options);
}

}  // namespace sextant
