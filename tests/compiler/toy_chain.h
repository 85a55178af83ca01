// Staged graphs of a chain of layers with costs in picoseconds, for tests of everything behind
// staging: each layer has one F, one B and one W operator, a weight, something saved from F for W,
// and an optimizer.
#pragma once

#include "compiler/words/staged_graph.h"
#include "core/costs/cost_model.h"
#include "core/graphs/operator.h"

#include <cstdint>
#include <span>
#include <vector>

namespace sextant::testing {

struct ToyChain {
  std::vector<int> layers = {
      1};                // per stage; with several chunks per virtual stage, in model order
  int chunks = 1;        // per stage
  bool v_shape = false;  // every second chunk goes back, as in zb-v
  std::int64_t micro_batches = 1;
  // Per layer, by stage (the last entry counts for all further stages).
  std::vector<std::int64_t> forward = {1}, input_grad = {1}, weight_grad = {1};
  std::int64_t dp = 1, tp = 1;
  std::int64_t batch = 4, hidden = 4;
  bool gather = false;    // weights split over dp, gathered once per step (ZeRO-1)
  bool cast = false;      // a copy of each weight once per step
  bool tied = false;      // the last stage reads the first weight too
  bool recast = false;    // the last layer reads a copy of what others read of the first weight
  bool skip = false;      // the last stage reads the first stage's output too
  bool host = false;      // loader and metrics
  bool norm = false;      // B goes on after its collective
  bool optimizer = true;  // without: gradients are read by nobody
};

StagedGraph toy_chain(const ToyChain& options);

// Operators `toy` (one act takes as many picoseconds as its attribute `cost`), `toy_update`.
const OperatorRegistry& toy_operators();

// As many picoseconds as the work has FLOPs; launching costs nothing.
class ToyCost : public CostModel {
 public:
  Duration duration(const Work& work) const override;
  Duration launch_cost() const override { return Duration(0); }
};

// Every communication takes the same time from the last arrival.
class ToyNetwork : public NetworkModel {
 public:
  explicit ToyNetwork(std::int64_t transfer = 0, std::int64_t collective = 0)
      : transfer_(transfer), collective_(collective) {}
  void complete(const CollectiveCost& cost, std::span<const Time> arrivals,
                std::span<Time> done) const override;
  Duration duration(const CollectiveCost& cost) const override;

 private:
  std::int64_t transfer_, collective_;
};

}  // namespace sextant::testing
