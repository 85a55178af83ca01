// A graph made ready for tape mode once and timed again and again: other links, other kernels,
// other seeds. What is prepared is what depends on the graph and on which ranks behave alike, not
// on any duration: classes, dry run, recorded step.
#pragma once

#include "actor/protocol/proven_graph.h"
#include "actor/protocol/rank_classes.h"
#include "actor/tapes/flat_tape.h"
#include "actor/tapes/tape.h"
#include "core/costs/cost_model.h"
#include "simulator/modes/simulate.h"
#include "simulator/steps/timeline.h"

#include <cstdint>
#include <memory>
#include <vector>

namespace sextant {

class PreparedGraph {
 public:
  // Folds as the options say, by what the models tell apart.
  PreparedGraph(ProvenGraph proven, const CostModel& cost, const NetworkModel& network,
                const SimulateOptions& options = {});
  // As above. `graph` outlives it. Throws Error(kInfeasible) when the graph cannot run.
  PreparedGraph(const PhysicalGraph& graph, const CostModel& cost, const NetworkModel& network,
                const SimulateOptions& options = {});

  // What simulate() says in tape mode. Throws Error(kUsage) for other modes, for jitter or traffic
  // where it was prepared folded, and for models that tell ranks apart that it has folded.
  Simulation simulate(const CostModel& cost, const NetworkModel& network,
                      const SimulateOptions& options = {}) const;
  Timeline timeline(const CostModel& cost, const NetworkModel& network,
                    const SimulateOptions& options = {}) const;
  // By entry of the tape.
  TapeTimes times(const CostModel& cost, const NetworkModel& network,
                  const SimulateOptions& options = {}) const;
  const Tape& tape() const { return *tape_; }
  const FlatTape& flat() const { return flat_; }
  const RankClasses& classes() const { return classes_; }

  // With the models that it was prepared with: the classes need not be worked out again to see that
  // they still hold.
  Simulation first_simulation(const CostModel& cost, const NetworkModel& network,
                              const SimulateOptions& options) const;
  Timeline first_timeline(const CostModel& cost, const NetworkModel& network,
                          const SimulateOptions& options) const;

 private:
  Simulation simulation(const CostModel& cost, const TapeTimes& times,
                        const SimulateOptions& options) const;
  TapeTimes evaluated(const CostModel& cost, const NetworkModel& network,
                      const SimulateOptions& options) const;
  RankClasses classes_of(const CostModel& cost, const NetworkModel& network) const;

  ProvenGraph proven_;
  bool folds_;
  RankClasses classes_;
  std::unique_ptr<const Tape> tape_;  // does not move: the flat one refers to it
  FlatTape flat_;
};

}  // namespace sextant
