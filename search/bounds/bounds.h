// What no plan of a strategy can be better than, from the training graph alone: cheap enough to ask
// for every tuple, and never above what the simulator says (README, invariants).
#pragma once

#include "compiler/expand/layer_cells.h"
#include "compiler/strategy/strategy.h"
#include "compiler/words/stage.h"
#include "core/base/table.h"
#include "core/graphs/logical_graph.h"
#include "core/graphs/operator_role.h"
#include "search/bounds/least_costs.h"
#include "search/bounds/pipeline_edges.h"
#include "search/bounds/pipeline_moments.h"
#include "search/bounds/replica_exchange.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

namespace sextant {

// The training graph of one micro-batch over all replicas, condensed to what bounds need. It is the
// graph before recomputation and rings (`plain_strategy`): what these add is known from it.
class GraphProfile {
 public:
  explicit GraphProfile(const LogicalGraph& training);
  // Of a model whose layers are like these of `shorter` (search/bounds/shorter_model.h).
  GraphProfile(const LogicalGraph& shorter, const std::vector<int>& like_layers);

  // A bound holds for the strategy and, where asked so, for those that leave a choice open: the
  // least over all values of it.
  struct Open {
    bool recompute = false;  // memory: the least kept; time: `recompute` of the strategy holds
    bool zero = false;       // as if 3
    bool pieces = false;     // as if products may be cut
    bool again = false;      // layers' cells are without what is computed again
  };

  // Layers that are alike keep no less than `kept`, on one device and of one micro-batch, by what
  // they repeat; zero: not known.
  struct KeptBytes {
    Bytes plain, selective, full;
  };
  struct KeptOfLayers {
    KeptBytes bytes = {};
    std::vector<bool> alike = {};  // by layer; empty: of no layer
  };
  // By stage: states, and what a step must hold between two cells of the schedule. Splits are
  // taken at their best, every activation over dp x cp x tp, but for what `kept` says.
  std::vector<Bytes> memory_bound(const Strategy& strategy, const std::vector<LayerPlace>& places,
                                  std::int64_t micro_batches, Open open,
                                  const KeptOfLayers& kept) const;
  std::vector<Bytes> memory_bound(const Strategy& strategy, const std::vector<LayerPlace>& places,
                                  std::int64_t micro_batches, Open open) const {
    return memory_bound(strategy, places, micro_batches, open, KeptOfLayers());
  }
  std::vector<Bytes> memory_bound(const Strategy& strategy, const std::vector<LayerPlace>& places,
                                  std::int64_t micro_batches) const {
    return memory_bound(strategy, places, micro_batches, Open());
  }

  // The longest of these paths through a steady step, with every operator split over dp x cp x tp
  // and communication free: all the work of one stage; or the first micro-batch's way down to the
  // first chunk of a stage, all micro-batches there, the last one's way back up and the optimizer
  // of the first stage. (Chunk 0 of stage s is virtual stage s: its backward is the stage's last.)
  // Layers that `known.layers` has cells for take that, with communication; those that it has
  // queues for take no less than these are busy; what gathers parameters in every micro-batch takes
  // its way along the queue of collectives, cell after cell; empty: nothing is known.
  // Replicas of layers exchange what `known.replicas` says, on the queue of collectives; empty: not
  // known.
  struct KnownLayer {
    const LayerCells* cells = nullptr;
    const LayerQueues* queues = nullptr;
    const FetchingLayer* fetching = nullptr;  // beside cells
  };
  using KnownLayers = std::vector<KnownLayer>;
  using ReplicasOfLayers = std::vector<ReplicaTimes>;
  struct KnownTimes {
    const KnownLayers& layers;
    const ReplicasOfLayers& replicas;
  };
  Duration time_bound(const Strategy& strategy, const std::vector<LayerPlace>& places,
                      std::int64_t micro_batches, const LeastCosts& costs, Open open,
                      const KnownTimes& known) const;
  Duration time_bound(const Strategy& strategy, const std::vector<LayerPlace>& places,
                      std::int64_t micro_batches, const LeastCosts& costs, Open open) const {
    return time_bound(strategy, places, micro_batches, costs, open, {{}, {}});
  }
  Duration time_bound(const Strategy& strategy, const std::vector<LayerPlace>& places,
                      std::int64_t micro_batches, const LeastCosts& costs) const {
    return time_bound(strategy, places, micro_batches, costs, Open());
  }

  // By layer, of recompute=full and of recompute=K: all of it is calculated again.
  static std::vector<bool> repeats_all(const Strategy& strategy,
                                       const std::vector<LayerPlace>& places);

  // For guesses (estimate.h): gradients of a stage on one device of the tp group, whole over dp;
  // and the memory bound with what every device of the tp group holds whole, by layer.
  struct Whole {
    double saved = 0;  // share of the activations
    Bytes awaited;     // per micro-batch, more than a part of them, until weight gradients are made
  };
  std::vector<Bytes> gradient_bytes(const Strategy& strategy,
                                    const std::vector<LayerPlace>& places) const;
  std::vector<Bytes> likely_memory(const Strategy& strategy, const std::vector<LayerPlace>& places,
                                   std::int64_t micro_batches, Open open,
                                   const std::vector<Whole>& whole) const;

  // For every schedule, number of chunks, recomputation and ZeRO stage, the longest of: the means
  // over stages of the work that there is and of what is on the queue of collectives; the way of
  // one micro-batch through all layers and back.
  Duration least_time(const Strategy& strategy, std::int64_t micro_batches, const LeastCosts& costs,
                      const KnownTimes& known) const;
  Duration least_time(const Strategy& strategy, std::int64_t micro_batches,
                      const LeastCosts& costs) const {
    return least_time(strategy, micro_batches, costs, {{}, {}});
  }

  // What replicas exchange of the parameters of the layers that are `alike`; nothing of others.
  ReplicasOfLayers replica_times(const ReplicaExchange& exchange,
                                 const std::vector<bool>& alike) const;
  Bytes gradients_of_layer(int layer) const;  // whole

  int num_layers() const { return num_layers_; }

  // Work of the parts of one layer, one micro-batch (optimizer: one step), on one device at best.
  enum class Part : std::uint8_t {
    kForward,
    kAgainSelective,  // what recompute=selective repeats for certain
    kAgainFull,
    kInputGrad,
    kWeightGrad,
    kOptimizer
  };
  static constexpr std::size_t kNumParts = 6;
  using LayerWork = FixedTable<Part, Duration, kNumParts>;
  const std::vector<LayerWork>& layer_work(const Strategy& strategy, DeviceKinds kinds,
                                           const LeastCosts& costs, Open open) const;

 private:
  // What a layer does again in backward.
  enum class Again : std::uint8_t { kNothing, kSelective, kAll };
  static constexpr std::size_t kNumAgain = 3;

  // Operators that cost the same, whatever their layer.
  struct OpWork {
    Part part = Part::kForward;
    bool again_selective = false, again_full = false;
    std::string kind;
    OperatorRole role = OperatorRole::kPlain;
    Work work;
    bool operator==(const OpWork&) const = default;
  };
  struct LayerOp {
    int layer = 0;
    std::size_t work = 0;  // in ops_
  };
  // Where a compiler may put an operator kind: at the head of a fused operator, which still reads
  // what its head reads but need not write it, or behind another one, where it may cost next to
  // nothing.
  enum class FusedUse : std::uint8_t { kNone, kLeads, kFollows };
  struct Parameter {
    int layer = 0;
    std::int64_t split_extent = 0;   // of the dim that tensor parallelism splits; 0: replicated
    std::int64_t expert_extent = 0;  // of the dim that expert parallelism splits; 0: no expert's
    Bytes states;                    // parameter and optimizer state, whole
    Bytes gradient;                  // whole
    Bytes copies;           // made of it once per step, read in forward and in backward, whole
    Bytes read_whole;       // the parameter itself, where forward and backward read it
    bool in_parts = false;  // large enough for ZeRO
  };
  // Of one chunk of a stage, or of one layer.
  struct StageBytes {
    Bytes states, gradients, copies;
    Bytes gathered;        // for one micro-batch, of what ZeRO 3 has in parts: whole
    Bytes saved, awaited;  // per micro-batch
  };
  // A chunk's cells of one micro-batch; what a stage has once per step.
  struct ChunkTimes {
    Duration forward, backward;  // backward: with what is computed again
    Duration backward_work, weight_grad;
    Duration both;         // backward and weight gradients
    Duration down, up;     // forward and backward, from what arrives to what leaves
    Duration way_out;      // backward likewise, with what is computed again where that is known
    Duration collectives;  // on their queue
    Duration fetching;     // along that queue, from its first gather of parameters; zero: not known
    Duration optimizer;
    ChunkTimes& operator+=(const ChunkTimes& other);
  };
  // By ZeRO stage: what a stage does in any case, with the exchanges of replicas.
  static constexpr std::size_t kNumZeroStages = 4;
  using ByZero = std::array<Duration, kNumZeroStages>;
  ByZero exchange_bounds(const Strategy& strategy, std::int64_t micro_batches,
                         const std::vector<ChunkTimes>& chunks,
                         const std::vector<ReplicaTimes>& replicas) const;
  static Duration along_fetches(const KnownLayers& known, const std::vector<LayerPlace>& places,
                                std::size_t layer);
  static LayerQueues least_queues(const LayerWork& work, const LayerQueues* known);
  std::vector<ChunkTimes> chunk_times(const Strategy& strategy,
                                      const std::vector<LayerPlace>& places,
                                      const LeastCosts& costs, Open open,
                                      const KnownLayers& known) const;
  std::vector<Bytes> held(const Strategy& strategy, const std::vector<LayerPlace>& places,
                          std::int64_t micro_batches, Open open, const std::vector<Whole>& whole,
                          const KeptOfLayers& kept) const;
  Bytes least_kept(const Strategy& strategy, std::size_t layer, Again again,
                   const KeptBytes& kept) const;
  std::vector<Bytes> most_held(const Strategy& strategy, std::int64_t micro_batches,
                               const std::vector<StageBytes>& bytes) const;
  void add_gathered(const Strategy& strategy, const std::vector<LayerPlace>& places,
                    std::vector<StageBytes>& bytes) const;
  void add_passing(const Strategy& strategy, const std::vector<LayerPlace>& places, int zero,
                   const std::vector<Whole>& whole, std::vector<StageBytes>& bytes) const;
  std::vector<StageBytes> parameter_bytes(const Strategy& strategy,
                                          const std::vector<LayerPlace>& places, int zero) const;
  const std::vector<StageBytes>& parameters_of_layers(const Strategy& strategy, int zero) const;

  void collect_work(const LogicalGraph& training);
  void add_work(int layer, OpWork work);
  static FusedUse fused_use(const std::string& kind, const std::set<std::string>& kinds,
                            const LeastCosts& costs);
  const std::vector<FusedUse>& fused_uses(bool in_pieces, const LeastCosts& costs) const;
  void collect_parameters(const LogicalGraph& training);
  void collect_saved(const LogicalGraph& training);
  void spread(const std::vector<int>& like_layers);
  // By layer; the blocks that recompute=K repeats.
  static std::vector<Again> again_of_layers(const Strategy& strategy,
                                            const std::vector<LayerPlace>& places);

  int num_layers_ = 0;
  std::vector<OpWork> ops_;
  std::vector<LayerOp> layer_ops_;
  mutable std::array<std::vector<FusedUse>, 2> fused_uses_;  // of ops_, without and with pieces
  std::vector<Parameter> parameters_;
  // By kind of recomputation and layer: made in forward, read in backward.
  FixedTable<Again, std::vector<Bytes>, kNumAgain> saved_;
  // By layer: what the weight gradients of a micro-batch read that its forward and backward made.
  std::vector<Bytes> awaited_;
  // Certain to be repeated, by recomputation and operator.
  FixedTable<Again, std::vector<bool>, kNumAgain> repeats_, may_repeat_;
  using WorkKey = std::tuple<std::int64_t, std::int64_t, bool, DeviceKinds>;
  // Many strategies ask for the same shares.
  mutable std::map<WorkKey, std::vector<LayerWork>> layer_work_;
  // By what divides parameters: dp, tp, ep and the ZeRO stage.
  using ShareKey = std::tuple<std::int64_t, std::int64_t, std::int64_t, int>;
  mutable std::map<ShareKey, std::vector<StageBytes>> layer_parameters_;
  mutable PipelineMomentsTable moments_;
  mutable PipelineEdgesTable edges_;
};

// The strategy whose training graph has the samples of `strategy` and nothing else of it.
Strategy plain_strategy(const Strategy& strategy);

}  // namespace sextant
