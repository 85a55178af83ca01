// What no plan of a strategy can be better than, from the training graph alone: cheap enough to ask
// for every tuple, and never above what the simulator says (README, invariants).
#pragma once

#include "compiler/stage.h"
#include "compiler/strategy.h"
#include "core/cost_model.h"
#include "core/logical_graph.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace sextant {

// The training graph of one micro-batch over all replicas, condensed to what bounds need.
class GraphProfile {
 public:
  explicit GraphProfile(const LogicalGraph& training);

  // Of the slowest stage: states, and what a step must hold at the moment when most micro-batches
  // wait for their backward. Splits are taken at their best: every activation over dp x tp.
  Bytes memory_bound(const Strategy& strategy, const std::vector<LayerPlace>& places,
                     std::int64_t micro_batches) const;

  // The longest of these paths through a steady step, with every operator split over dp x tp and
  // communication free: all the work of one stage; or the first micro-batch's way down to the first
  // chunk of a stage, all micro-batches there, the last one's way back up and the optimizer of the
  // first stage. (Chunk 0 of stage s is virtual stage s: its backward is the stage's last.)
  Duration time_bound(const Strategy& strategy, const std::vector<LayerPlace>& places,
                      std::int64_t micro_batches, const CostModel& cost) const;

  int num_layers() const { return num_layers_; }

 private:
  enum class Part : std::uint8_t { kForward, kRecompute, kInputGrad, kWeightGrad, kOptimizer };
  static constexpr std::size_t kNumParts = 5;

  struct OpWork {
    int layer = 0;
    Part part = Part::kForward;
    std::string kind;
    Work work;
  };
  struct Parameter {
    int layer = 0;
    std::int64_t elements = 0;
    std::int64_t split_extent = 0;  // of the dim that tensor parallelism splits; 0: replicated
    Bytes states;                   // parameter and optimizer state, whole
    Bytes gradient;                 // whole
  };
  // Work of one stage, one micro-batch (optimizer: one step), on one device at best.
  using StageWork = std::array<Duration, kNumParts>;

  void collect_work(const LogicalGraph& training);
  void collect_parameters(const LogicalGraph& training);
  void collect_saved(const LogicalGraph& training);
  const std::vector<StageWork>& layer_work(std::int64_t shares, std::int64_t optimizer_shares,
                                           const CostModel& cost) const;

  int num_layers_ = 0;
  std::vector<OpWork> ops_;
  std::vector<Parameter> parameters_;
  std::vector<Bytes> saved_;  // by layer: made in forward from the inputs, read in backward
  // By (shares of work, shares of optimizer work): by layer. Many strategies ask for the same.
  mutable std::map<std::pair<std::int64_t, std::int64_t>, std::vector<StageWork>> layer_work_;
};

}  // namespace sextant
