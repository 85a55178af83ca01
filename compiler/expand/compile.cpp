// The whole compiler in one call.
#include "compiler/expand/expand.h"
#include "compiler/words/coverage.h"
#include "compiler/words/stage.h"
#include "core/base/check.h"

#include <utility>

namespace sextant {

ExpandedGraph compile_and_report(const LogicalGraph& training, const Strategy& strategy,
                                 std::int64_t global_batch, const CostModel& cost,
                                 const NetworkModel& network, BoxingTables& tables,
                                 ExpandOptions options) {
  options.schedule = strategy.schedule;
  StagedGraph staged = make_staged_graph(
      training, strategy, num_micro_batches(strategy, global_batch), tables, options.stop);
  if (options.checks) {
    const std::vector<std::string> broken = check_layers(training, staged);
    require(broken.empty(), ErrorCode::kInternal, "the compiler staged this wrongly: {}",
            broken.empty() ? "" : broken.front());
  }
  return expand_and_report(std::move(staged), training.registry(), cost, network, options);
}

ExpandedGraph compile_and_report(const LogicalGraph& training, const Strategy& strategy,
                                 std::int64_t global_batch, const CostModel& cost,
                                 const NetworkModel& network, ExpandOptions options) {
  BoxingTables tables(&network, &cost);
  return compile_and_report(training, strategy, global_batch, cost, network, tables, options);
}

PhysicalGraph compile(const LogicalGraph& training, const Strategy& strategy,
                      std::int64_t global_batch, const CostModel& cost, const NetworkModel& network,
                      BoxingTables& tables, ExpandOptions options) {
  return compile_and_report(training, strategy, global_batch, cost, network, tables, options)
      .take_graph();
}

PhysicalGraph compile(const LogicalGraph& training, const Strategy& strategy,
                      std::int64_t global_batch, const CostModel& cost, const NetworkModel& network,
                      ExpandOptions options) {
  return compile_and_report(training, strategy, global_batch, cost, network, options).take_graph();
}

}  // namespace sextant
