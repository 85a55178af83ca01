// The critical path of a plan's step with the names that people know: operators, ranks, queues.
#pragma once

#include "core/costs/cost_model.h"
#include "core/graphs/physical_graph.h"
#include "simulator/modes/simulate.h"
#include "simulator/reports/critical_path.h"

#include <cstdint>
#include <string>
#include <vector>

namespace sextant {

struct StepPath {
  struct Row {
    Rank rank;
    QueueRole queue = QueueRole::kCompute;
    std::string name;
    PathPart part = PathPart::kCompute;
    Time begin, end;  // since the end of the step before
  };
  // Least slack of the launches of a rank on one queue.
  struct QueueSlack {
    Rank rank;
    QueueRole queue = QueueRole::kCompute;
    Duration least;
    std::int64_t launches = 0, without_slack = 0;
  };
  std::vector<Row> rows;
  std::vector<QueueSlack> slack;  // by rank, then queue
  Duration step_time;
  bool steady = false;
};

// In tape mode, folded as the options say. Throws Error(kUsage) for timed mode, where launches
// delay each other without a wait between them.
StepPath simulate_path(const PhysicalGraph& graph, const CostModel& cost,
                       const NetworkModel& network, const SimulateOptions& options);

}  // namespace sextant
