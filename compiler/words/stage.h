// Training graph + strategy -> staged graph: stages, words, boxing, ZeRO as words and rate.
#pragma once

#include "compiler/strategy/layer_places.h"
#include "compiler/strategy/strategy.h"
#include "compiler/training/rates.h"
#include "compiler/words/boxing_times.h"
#include "compiler/words/staged_graph.h"
#include "core/base/stop_poll.h"
#include "core/costs/cost_model.h"
#include "core/graphs/logical_graph.h"
#include "sbp/boxing_plans.h"
#include "sbp/inference.h"

#include <cstdint>
#include <map>
#include <vector>

namespace sextant {

// Placement per stage: the mesh axes of the strategy, whose members have the ranks that the
// strategy's order of axes gives them.
std::vector<Placement> make_placements(const Strategy& strategy);

// What a strategy says of tensors: words before inference starts, and when they are boxed.
struct StrategyWords {
  WordConstraints constraints;
  BoxingTimes times;
  // Of constraints.inputs: the parameter whose words they follow, where there is one.
  std::map<OpInput, TensorId> parameter_of;
};

// Words that the strategy implies. Parameters are split over tp by their tensor_parallel_dim
// (Megatron's convention), over ep by their expert_parallel_dim, and read in these words; inputs
// are split over dp and ep on dim 0. With ZeRO parameters of at least kSmallestSharded elements
// live split over dp (and ep where it does not split experts) too, and so do their moments: from 2
// on the gradients are summed in these words, with 3 the parameters are read from them per use.
// Throws Error(kInfeasible) for a batch that dp does not divide or that is not dp x micro_batch,
// and for ep without experts.
StrategyWords strategy_words(const LogicalGraph& training, const Strategy& strategy);
inline constexpr std::int64_t kSmallestSharded = 1024;

// Megatron's sequence parallelism on top of words that were inferred without it: what tp leaves
// whole of the activations is split over tp along the sequence instead, and gathered per use.
// Throws Error(kInfeasible) when there is no such tensor.
void split_sequences(const LogicalGraph& training, const Strategy& strategy,
                     const WordAssignment& inferred, StrategyWords& words);

// Boxing plans of the compiles of one job, each made once: strategies of one model ask for many of
// the same. Not for several threads at once; the models outlive it.
struct BoxingTables {
  BoxingTables(const NetworkModel* network, const CostModel* cost)
      : by_bytes(BoxingObjective::kBytes),
        chosen(network != nullptr ? BoxingObjective::kTime : BoxingObjective::kBytes, network,
               cost) {}
  BoxingPlans by_bytes;  // what inference asks for
  BoxingPlans chosen;    // what is built: by time, without a network by bytes
};

// Throws Error(kInfeasible) for micro-batches or chunks that the schedule cannot have
// (compiler/strategy/schedule.h). `network` decides between boxings by time, in which what devices
// do alone takes what `cost` says; without a network bytes decide, without a cost model it is free.
// The result passes validate(). Stops between passes and between operators.
StagedGraph make_staged_graph(const LogicalGraph& training, const Strategy& strategy,
                              std::int64_t micro_batches, const NetworkModel* network,
                              const CostModel* cost = nullptr, const StopPoll& stop = StopPoll());
// Stages a graph with tables of the models that several compiles share.
StagedGraph make_staged_graph(const LogicalGraph& training, const Strategy& strategy,
                              std::int64_t micro_batches, BoxingTables& tables,
                              const StopPoll& stop = StopPoll());

}  // namespace sextant
