// The classes are worked out again for every run, to see that they still are what was recorded.
#include "simulator/modes/prepared_graph.h"

#include "core/base/check.h"
#include "simulator/modes/group_colours.h"
#include "simulator/modes/rank_colours.h"
#include "simulator/modes/tape_mode.h"
#include "simulator/modes/timed_mode.h"

#include <utility>

namespace sextant {

PreparedGraph::PreparedGraph(ProvenGraph proven, const CostModel& cost, const NetworkModel& network,
                             const SimulateOptions& options)
    : proven_(std::move(proven)),
      folds_(folds(options)),
      classes_(classes_of(cost, network)),
      tape_(std::make_unique<const Tape>(record(proven_, classes_))),
      flat_(*tape_) {}

PreparedGraph::PreparedGraph(const PhysicalGraph& graph, const CostModel& cost,
                             const NetworkModel& network, const SimulateOptions& options)
    : PreparedGraph(ProvenGraph(graph), cost, network, options) {}

RankClasses PreparedGraph::classes_of(const CostModel& cost, const NetworkModel& network) const {
  const PhysicalGraph& graph = proven_.graph();
  if (!folds_) return all_ranks(graph);
  return rank_classes(graph, proven_.members(), rank_colours(graph, cost),
                      group_colours(graph, proven_.members(), network), member_order(network));
}

TapeTimes PreparedGraph::times(const CostModel& cost, const NetworkModel& network,
                               const SimulateOptions& options) const {
  validate(options);
  require(options.mode == SimulationMode::kTape, ErrorCode::kUsage,
          "a prepared graph is timed in tape mode only");
  require(!folds_ || folds(options), ErrorCode::kUsage,
          "jitter, traffic and unfolded runs need a graph that was prepared unfolded");
  require(!folds_ || classes_of(cost, network).class_of == classes_.class_of, ErrorCode::kUsage,
          "these models tell other ranks apart than those that the graph was prepared with");
  return evaluated(cost, network, options);
}

TapeTimes PreparedGraph::evaluated(const CostModel& cost, const NetworkModel& network,
                                   const SimulateOptions& options) const {
  return evaluate(flat_, entry_durations(*tape_, proven_.graph(), cost), cost, network,
                  tape_options(options));
}

Timeline PreparedGraph::timeline(const CostModel& cost, const NetworkModel& network,
                                 const SimulateOptions& options) const {
  return timeline_of(proven_.graph(), *tape_, times(cost, network, options), classes_, options);
}

Timeline PreparedGraph::first_timeline(const CostModel& cost, const NetworkModel& network,
                                       const SimulateOptions& options) const {
  return timeline_of(proven_.graph(), *tape_, evaluated(cost, network, options), classes_, options);
}

Simulation PreparedGraph::simulation(const CostModel& cost, const TapeTimes& times,
                                     const SimulateOptions& options) const {
  if (options.keep_slices)
    return simulation_of(proven_.graph(), cost,
                         timeline_of(proven_.graph(), *tape_, times, classes_, options), options);
  const Timeline outline = outline_of(proven_.graph(), *tape_, times, classes_, options);
  return simulation_of(proven_.graph(), outline, parts_of(*tape_, times, outline.step_time()));
}

Simulation PreparedGraph::first_simulation(const CostModel& cost, const NetworkModel& network,
                                           const SimulateOptions& options) const {
  return simulation(cost, evaluated(cost, network, options), options);
}

Simulation PreparedGraph::simulate(const CostModel& cost, const NetworkModel& network,
                                   const SimulateOptions& options) const {
  return simulation(cost, times(cost, network, options), options);
}

}  // namespace sextant
