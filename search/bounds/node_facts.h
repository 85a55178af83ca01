// What is known of a node of the space before anything below it is compiled: training graphs,
// profiles, places of layers, and from them bounds of time and memory. Kept, because many nodes ask
// for the same.
#pragma once

#include "compiler/words/stage.h"
#include "core/base/error.h"
#include "core/base/stop_poll.h"
#include "core/costs/cluster.h"
#include "core/graphs/logical_graph.h"
#include "search/bounds/bounds.h"
#include "search/bounds/layer_table.h"
#include "search/bounds/replica_exchange.h"
#include "search/bounds/shorter_model.h"
#include "search/problem/candidate.h"
#include "search/problem/recent_graphs.h"
#include "search/space/space.h"

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

namespace sextant {

// What the compiler says of strategies that a model cannot have; anything else is a bug.
bool is_refusal(const Error& error);

// The training graph of the fewest samples that the model can have: what the model is like does not
// depend on them.
struct FirstGraph {
  LogicalGraph training;
  std::int64_t samples = 1;
};
// Throws what building the graph throws for every divisor of the global batch.
FirstGraph first_graph(const SearchProblem& problem);

// Throws, each time, what building a node's training graph throws.
class NodeFacts {
 public:
  // All arguments outlive it. `cluster`: with the memory that plans may take. `stop` is asked
  // before a graph is built or condensed: every member may throw CompileStopped.
  NodeFacts(const SearchProblem& problem, const Cluster& cluster, const LeastCosts& costs,
            const FirstGraph& first, const SearchModels& models, const StopPoll& stop)
      : problem_(problem),
        models_(models),
        cluster_(cluster),
        costs_(costs),
        first_(first),
        stop_(stop),
        base_libraries_(total(library_memory(cluster.device, 0))),
        shorter_(problem, first.training, first.samples),
        layers_(models, cluster, shorter_),
        collective_times_(*models.network) {}

  const LogicalGraph& graph_of(const Strategy& strategy);
  const GraphProfile& profile_of(const Strategy& strategy);
  const std::vector<LayerPlace>& places_of(const Strategy& strategy);
  std::int64_t micro_batches_of(const Strategy& strategy) const;

  // No plan below is faster: of the work that there is, communication free.
  Duration bound_of(const SpaceNode& node) { return bound_of(node, {}); }
  // The same with what replicas exchange.
  Duration bound_with_replicas(const SpaceNode& node) {
    if (node.level == Level::kMesh) return bound_of(node);
    return bound_of(node, replicas_of(node.strategy));
  }
  // Bounds a leaf with the communication inside its layers: takes milliseconds where the kind of
  // layer is a new one.
  Duration bound_with_layers(const Strategy& leaf);
  // Whether that knows of any layer.
  bool knows_layers(const Strategy& leaf);
  // Bounds any node, whose choices are `choices` (StrategySpace::layer_choices): the least
  // over them. Ends when it is not above `known`; nothing where a layer is not known.
  enum class Share : std::uint8_t {
    // Layers that nodes of all numbers of parts of a sequence share besides: those that have it
    // whole. One of so many parts takes at least its share of them. Nothing of measured kernels.
    kOfWholeSequences,
    // Layers that nodes of other micro-batches share, whatever the pieces; with measured kernels of
    // the micro-batch as well, boxing of what may come in pieces being free.
    kOfAllSamples,
    // Layers of the node's own micro-batch, whatever the recomputation and the schedule; where
    // nothing was measured whatever the pieces too.
    kOfMicroBatch,
  };
  std::optional<Duration> bound_with_choices(const SpaceNode& node,
                                             const std::vector<Strategy>& choices, Share share,
                                             Duration known);
  bool has_shares() const;  // else one layer for all samples says nothing of a micro-batch
  // Whether that stages nothing new.
  bool knows_choices(const std::vector<Strategy>& choices, Share share) const;
  std::int64_t staging_work() const { return layers_.staging_work(); }

  // By how much the memory bound is above what the stage with least room has; below zero: not.
  struct Excess {
    Bytes missing = Bytes(std::numeric_limits<std::int64_t>::min());
    Bytes needed, room;
    Bytes least;  // some device of every plan takes as much, libraries included
  };
  // Layers that have been staged say more of what they keep; this stages none.
  Excess excess_of(const SpaceNode& node);
  // Most that a device of the stage has beside what libraries take in any case.
  Bytes room_of(const Strategy& strategy, std::int64_t stage) const;

 private:
  GraphProfile::KnownLayers known_layers(const Strategy& strategy);
  Bytes known_kept(const Strategy& strategy, Recompute::Kind recompute);
  GraphProfile::KeptOfLayers kept_of_layers(const SpaceNode& node);
  bool shares_pieces(Share share) const { return has_shares() || share == Share::kOfAllSamples; }
  static bool has_all_samples(Share share) { return share != Share::kOfMicroBatch; }
  Strategy shared_layer(const Strategy& choice, Share share) const;
  // What layers like the middle one take, and those before and behind them.
  struct Layers {
    LayerCells middle;
    EdgeLayers edges;
  };
  static Layers share_of(const Layers& all, std::int64_t num_ops, std::int64_t parts);
  std::optional<Layers> least_layers(const Strategy& choice, Share share, bool repeats);
  GraphProfile::KnownLayers with_edges(const EdgeLayers& edges);
  Duration bound_of(const SpaceNode& node, const GraphProfile::ReplicasOfLayers& replicas);
  // Whether layers like the middle one owe a sum of all gradients over the axes that `parts` has
  // two members on, and read parameters whole there.
  bool sums_over(const Strategy& parts);
  bool replicas_add_up();
  bool parts_of_sequences_add_up(const Strategy& strategy);
  const GraphProfile::ReplicasOfLayers& replicas_of(const Strategy& strategy);
  const std::vector<bool>& layers_like_middle();
  GraphProfile made_profile(const Strategy& strategy);
  Bytes least_libraries(const Strategy& strategy, std::int64_t stage) const;

  const SearchProblem& problem_;
  const SearchModels& models_;
  const Cluster& cluster_;
  const LeastCosts& costs_;
  const FirstGraph& first_;
  const StopPoll& stop_;
  const Bytes base_libraries_;  // of the base device, without communicators
  ShorterModel shorter_;
  LayerTable layers_;
  CollectiveTimes collective_times_;
  RecentGraphs graphs_{4};
  std::map<std::int64_t, GraphProfile> profiles_;  // by samples
  std::map<std::int64_t, Error> refused_samples_;  // the model has no such batch
  std::map<std::tuple<std::int64_t, std::int64_t, bool>, std::vector<LayerPlace>> places_;
  std::map<std::pair<std::int64_t, ContextMode>, bool> sums_over_;  // by cp and its mode
  std::vector<bool> like_middle_;                                   // by layer; empty: not made yet
  using ReplicaKey = std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t, bool>;
  std::map<ReplicaKey, GraphProfile::ReplicasOfLayers>
      replicas_;  // by dp, tp, cp, ep, sums over cp
};

}  // namespace sextant
