// Sums over layers, then over stages; everything divided by the largest share a device can be
// spared.

#include "search/bounds.h"

#include "core/at.h"
#include "core/fused_kinds.h"
#include "core/operator.h"
#include "core/views.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

namespace sextant {

namespace {

std::int64_t ceil_divide(std::int64_t number, std::int64_t by) { return (number + by - 1) / by; }

std::vector<TensorType> types_of(const LogicalGraph& graph, const std::vector<TensorId>& tensors) {
  std::vector<TensorType> types;
  for (const TensorId tensor : tensors) types.push_back(graph.tensor(tensor).type);
  return types;
}

// Operators whose results reach a state update or a host actor: a compiler may drop the others.
std::vector<bool> live_ops(const LogicalGraph& graph) {
  std::vector<bool> live(graph.ops().size());
  for (std::size_t op = live.size(); op-- > 0;) {
    const LogicalOp& candidate = graph.op(OpId(op));
    const OperatorDef& def = graph.registry().get(candidate.kind);
    bool used = !def.state_outputs.empty() || def.on_host;
    for (const TensorId output : candidate.outputs)
      for (const LogicalGraph::Use& use : graph.uses(output)) used = used || live[use.op.index()];
    live[op] = used;
  }
  return live;
}

// Tensors that change from micro-batch to micro-batch: what comes of an input.
std::vector<bool> changing_ops(const LogicalGraph& graph) {
  std::vector<bool> changing(graph.ops().size());
  for (std::size_t op = 0; op < changing.size(); ++op) {
    const LogicalOp& candidate = graph.op(OpId(op));
    bool is = false;
    for (const TensorId output : candidate.outputs)
      is = is || graph.tensor(output).role == TensorRole::kInput;
    for (const TensorId input : candidate.inputs)
      is = is || changing[graph.tensor(input).producer.index()];
    changing[op] = is;
  }
  return changing;
}

// Acts inside backward, where it reads what forward kept.
bool is_in_backward(Phase phase) {
  return phase == Phase::kRecompute || phase == Phase::kInputGrad || phase == Phase::kWeightGrad;
}

// Micro-batches whose forward is over and whose backward has not begun, at the worst moment.
std::int64_t in_flight(const Strategy& strategy, std::int64_t stage, std::int64_t micro_batches) {
  switch (strategy.schedule) {
    case Schedule::kGPipe:
      return micro_batches;
    case Schedule::kOneFOneB:
    case Schedule::kZeroBubbleH1:
      return std::min(micro_batches, strategy.pp - stage);
    case Schedule::kInterleaved:
    case Schedule::kZeroBubbleV:
      return 1;  // of one chunk at least
  }
  return 1;
}

// Where a compiler may put an operator kind: at the head of a fused operator, which still reads
// what its head reads but need not write it, or behind another one, where it may cost next to
// nothing. (The search cuts no products in pieces, so the graph has all kinds there will be.)
enum class FusedUse : std::uint8_t { kNone, kLeads, kFollows };

FusedUse fused_use(std::string_view kind, const std::set<std::string, std::less<>>& kinds,
                   const CostModel& cost) {
  FusedUse use = FusedUse::kNone;
  for (const FusedKind& fused : fused_kinds()) {
    if (!cost.fuses(fused.kind)) continue;
    const auto links = fused.members();
    const bool may_occur = std::all_of(
        links.begin(), links.end(), [&](const auto& link) { return kinds.count(link.kind) != 0; });
    if (!may_occur) continue;
    for (std::size_t i = 0; i < links.size(); ++i)
      // What a product reads may be cut out of something larger; the product costs what it does.
      if (links[i].kind == kind)
        use = std::max(use, i == 0 || kind == "matmul" ? FusedUse::kLeads : FusedUse::kFollows);
  }
  return use;
}

// W is a cell of its own, so it may be put off until after the last B.
bool parts_backward(Schedule schedule) {
  return schedule == Schedule::kZeroBubbleH1 || schedule == Schedule::kZeroBubbleV;
}

}  // namespace

GraphProfile::GraphProfile(const LogicalGraph& training)
    : num_layers_(training.num_layers()), saved_(at(training.num_layers())) {
  collect_work(training);
  collect_parameters(training);
  collect_saved(training);
}

void GraphProfile::collect_work(const LogicalGraph& training) {
  const std::vector<bool> live = live_ops(training);
  const std::vector<bool> changing = changing_ops(training);
  for (std::size_t op = 0; op < live.size(); ++op) {
    const LogicalOp& logical = training.op(OpId(op));
    const OperatorDef& def = training.registry().get(logical.kind);
    if (!live[op] || def.on_host || def.work == nullptr) continue;
    OpWork entry;
    entry.layer = logical.layer;
    entry.kind = logical.kind;
    switch (logical.phase) {
      case Phase::kData:
      case Phase::kCommunication:
        continue;
      case Phase::kForward:
        entry.part = Part::kForward;
        break;
      case Phase::kRecompute:
        entry.part = Part::kRecompute;
        break;
      case Phase::kInputGrad:
        entry.part = Part::kInputGrad;
        break;
      case Phase::kWeightGrad:
        entry.part = Part::kWeightGrad;
        break;
      case Phase::kOptimizer:
        entry.part = Part::kOptimizer;
        break;
    }
    // What does not change within a step may be done once.
    if (!changing[op]) entry.part = Part::kOptimizer;
    entry.work = def.work(types_of(training, logical.inputs), types_of(training, logical.outputs),
                          logical.attributes);
    // Without its extents a matmul has the efficiency of a large one, which none exceeds.
    entry.work.kernel = entry.work.kernel.substr(0, entry.work.kernel.find(':'));
    if (entry.work.flops > 0 || (entry.work.read + entry.work.written).value > 0)
      ops_.push_back(std::move(entry));
  }
}

void GraphProfile::collect_parameters(const LogicalGraph& training) {
  for (const LogicalOp& op : training.ops()) {
    const OperatorDef& def = training.registry().get(op.kind);
    // A parameter and its update are one actor, whose state is the update's.
    if (def.state_outputs.empty() || op.inputs.empty()) continue;
    Parameter parameter;
    parameter.layer = op.layer;
    for (const std::size_t output : def.state_outputs)
      parameter.states += size_of(training.tensor(op.outputs[output]).type);
    for (const TensorId input : op.inputs) {
      const LogicalTensor& tensor = training.tensor(input);
      const LogicalOp& producer = training.op(tensor.producer);
      if (tensor.role == TensorRole::kGradient)
        parameter.gradient = std::max(parameter.gradient, size_of(tensor.type));
      if (tensor.role != TensorRole::kParameter || !producer.parameter) continue;
      parameter.elements = tensor.type.shape.elements();
      if (const auto dim = producer.parameter->tensor_parallel_dim)
        parameter.split_extent = tensor.type.shape[*dim];
    }
    parameters_.push_back(parameter);
  }
}

void GraphProfile::collect_saved(const LogicalGraph& training) {
  const std::vector<bool> live = live_ops(training);
  const std::vector<bool> changing = changing_ops(training);
  const auto is_saved = [&](TensorId id) {
    const LogicalTensor& tensor = training.tensor(id);
    const LogicalOp& producer = training.op(tensor.producer);
    if (producer.phase != Phase::kForward || !changing[tensor.producer.index()]) return false;
    const auto uses = training.uses(id);
    return std::any_of(uses.begin(), uses.end(), [&](const LogicalGraph::Use& use) {
      const LogicalOp& reader = training.op(use.op);
      return live[use.op.index()] && is_in_backward(reader.phase) && reader.layer == producer.layer;
    });
  };
  for (std::size_t index = 0; index < training.tensors().size(); ++index) {
    const LogicalTensor& tensor = training.tensor(TensorId(index));
    const LogicalOp& producer = training.op(tensor.producer);
    if (!is_saved(TensorId(index))) continue;
    if (is_view_kind(producer.kind) && is_saved(producer.inputs[0])) continue;
    saved_[at(producer.layer)] += size_of(tensor.type);
  }
}

Bytes GraphProfile::memory_bound(const Strategy& strategy, const std::vector<LayerPlace>& places,
                                 std::int64_t micro_batches) const {
  std::vector<Bytes> by_stage(static_cast<std::size_t>(strategy.pp));
  for (const Parameter& parameter : parameters_) {
    Bytes& stage = by_stage[at(places[at(parameter.layer)].stage)];
    // The part of the first rank: never smaller than that of another.
    const std::int64_t extent = std::max<std::int64_t>(parameter.split_extent, 1);
    const std::int64_t part =
        parameter.split_extent == 0 ? extent : ceil_divide(extent, strategy.tp);
    const auto share = [&](Bytes whole) { return Bytes(whole.value / extent * part); };
    const std::int64_t replicas = strategy.zero == 0 ? 1 : strategy.dp;
    stage += Bytes(share(parameter.states).value / replicas);
    // With one micro-batch a gradient may be used up before the next one is made.
    if (micro_batches > 1) stage += share(parameter.gradient);
  }
  for (std::size_t layer = 0; layer < saved_.size(); ++layer) {
    const int stage = places[layer].stage;
    const Bytes share = Bytes(saved_[layer].value / (strategy.dp * strategy.tp));
    by_stage[at(stage)] += share * in_flight(strategy, stage, micro_batches);
  }
  return *std::max_element(by_stage.begin(), by_stage.end());
}

const std::vector<GraphProfile::StageWork>& GraphProfile::layer_work(std::int64_t shares,
                                                                     std::int64_t optimizer_shares,
                                                                     const CostModel& cost) const {
  const auto [place, is_new] = layer_work_.try_emplace({shares, optimizer_shares});
  if (!is_new) return place->second;
  place->second.resize(at(num_layers_));
  std::set<std::string, std::less<>> kinds;
  for (const OpWork& op : ops_) kinds.insert(op.kind);
  for (const OpWork& op : ops_) {
    const std::int64_t by = op.part == Part::kOptimizer ? optimizer_shares : shares;
    Work work = op.work;
    work.flops /= static_cast<double>(by);
    work.read.value /= by;
    work.written.value /= by;
    if (is_view_kind(op.kind)) continue;
    const FusedUse use = fused_use(op.kind, kinds, cost);
    if (use == FusedUse::kFollows) continue;
    if (use == FusedUse::kLeads) work.written = Bytes();
    place->second[at(op.layer)][static_cast<std::size_t>(op.part)] += cost.duration(work);
  }
  return place->second;
}

Duration GraphProfile::time_bound(const Strategy& strategy, const std::vector<LayerPlace>& places,
                                  std::int64_t micro_batches, const CostModel& cost) const {
  const std::int64_t shares = strategy.dp * strategy.tp;
  const auto& by_layer = layer_work(shares, strategy.zero == 0 ? strategy.tp : shares, cost);
  const auto of = [](const StageWork& work, Part part) {
    return work[static_cast<std::size_t>(part)];
  };
  const auto through = [&](const StageWork& work) {
    return of(work, Part::kForward) + of(work, Part::kInputGrad);
  };
  std::vector<StageWork> by_stage(static_cast<std::size_t>(strategy.pp));
  std::vector<StageWork> first_chunk = by_stage;
  for (std::size_t layer = 0; layer < by_layer.size(); ++layer)
    for (std::size_t part = 0; part < kNumParts; ++part) {
      const auto stage = at(places[layer].stage);
      by_stage[stage][part] += by_layer[layer][part];
      if (places[layer].chunk == 0) first_chunk[stage][part] += by_layer[layer][part];
    }

  const StageWork& first = first_chunk.front();
  Duration bound, way;  // way: one micro-batch down to the stage and back up
  for (std::size_t index = 0; index < by_stage.size(); ++index) {
    const StageWork& stage = by_stage[index];
    const Duration there = through(stage) + of(stage, Part::kRecompute);
    const Duration weights = of(stage, Part::kWeightGrad);
    bound = std::max(bound, (there + weights) * micro_batches + of(stage, Part::kOptimizer));
    Duration path = way + there * micro_batches;
    if (!parts_backward(strategy.schedule)) path += weights * (micro_batches - 1);
    if (index > 0)
      bound = std::max(bound, path + of(first, Part::kWeightGrad) + of(first, Part::kOptimizer));
    // What is recomputed waits for no gradient, so it is not on the way back up.
    way += through(first_chunk[index]);
  }
  return bound;
}

}  // namespace sextant
