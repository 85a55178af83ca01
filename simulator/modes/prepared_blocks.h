// A graph cut into blocks once and timed again and again: other links, other kernels. What is kept
// is what depends on the issue order and on which ranks behave alike, not on any duration.
#pragma once

#include "actor/protocol/proven_graph.h"
#include "core/base/units.h"
#include "core/costs/cost_model.h"
#include "simulator/modes/prepared_graph.h"
#include "simulator/modes/recurring/block_tape.h"
#include "simulator/modes/simulate.h"
#include "simulator/steps/timeline.h"

#include <cstdint>
#include <memory>
#include <vector>

namespace sextant {

class PreparedBlocks {
 public:
  // As PreparedGraph, for `options.window`.
  PreparedBlocks(const ProvenGraph& proven, const CostModel& cost, const NetworkModel& network,
                 const SimulateOptions& options = {});
  PreparedBlocks(const PhysicalGraph& graph, const CostModel& cost, const NetworkModel& network,
                 const SimulateOptions& options = {});

  // By step, when its last launch ended: what tape mode says, to the picosecond. The network tells
  // apart the same groups as the one that it was prepared with: that alone is not looked at, it
  // would cost more than all the rest. Throws Error(kUsage) for a cost model that tells other ranks
  // apart, and for a network whose members do not complete together.
  struct StepEnds {
    std::vector<Time> step_end;
    // The window may decide when something begins, or equal groups are not equally fast: the tape
    // was evaluated launch by launch.
    bool fell_back = false;
  };
  StepEnds step_ends(const CostModel& cost, const NetworkModel& network,
                     std::int64_t steps = SimulateOptions{}.steps) const;

  // What simulate() says in block mode; throws as PreparedGraph does. The launches of the reported
  // step come from the tape.
  Timeline timeline(const CostModel& cost, const NetworkModel& network,
                    const SimulateOptions& options = {}) const;

  const BlockTape& blocks() const { return *blocks_; }

 private:
  void require_same_colours(const CostModel& cost) const;
  BlockUse use(bool fell_back) const;

  ProvenGraph proven_;
  PreparedGraph prepared_;
  std::vector<std::int32_t> colours_;  // by place, as they were
  std::unique_ptr<const BlockTape> blocks_;
};

}  // namespace sextant
