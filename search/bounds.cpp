// Sums over layers, then over stages; everything divided by the largest share a device can be
// spared.

#include "search/bounds.h"

#include "compiler/recompute.h"
#include "core/at.h"
#include "core/fused_kinds.h"
#include "core/operator.h"
#include "core/views.h"

#include <algorithm>
#include <functional>
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

bool is_gradient(Phase phase) { return phase == Phase::kInputGrad || phase == Phase::kWeightGrad; }

// What cuts products and joins their pieces (compiler/product_pieces).
constexpr std::string_view kKindsOfPieces[] = {"slice", "reshape", "concat"};

// W is a cell of its own, so it may be put off until after the last B.
bool parts_backward(Schedule schedule) {
  return schedule == Schedule::kZeroBubbleH1 || schedule == Schedule::kZeroBubbleV;
}

// Who repeats for certain what, wherever the stages end: a tensor that a repeated or a gradient
// operator of its own layer reads, and that no other layer on the same stage can keep alive.
class CertainRepeats {
 public:
  CertainRepeats(const LogicalGraph& graph, std::vector<bool> may_repeat)
      : graph_(graph), may_repeat_(std::move(may_repeat)), repeats_(graph.ops().size(), false) {
    for (const LogicalOp& op : graph.ops())
      if (is_gradient(op.phase))
        for (const TensorId input : op.inputs) want(input, op.layer);
  }
  std::vector<bool> take() { return std::move(repeats_); }

 private:
  void want(TensorId tensor, int layer) {
    const OpId producer = graph_.tensor(tensor).producer;
    if (!may_repeat_[producer.index()] || graph_.op(producer).layer != layer) return;
    if (repeats_[producer.index()] || may_be_kept(tensor, layer)) return;
    repeats_[producer.index()] = true;
    for (const TensorId input : graph_.op(producer).inputs) want(input, layer);
  }
  bool may_be_kept(TensorId tensor, int layer) const {
    const auto uses = graph_.uses(tensor);
    return std::any_of(uses.begin(), uses.end(), [&](const LogicalGraph::Use& use) {
      const LogicalOp& reader = graph_.op(use.op);
      return reader.layer != layer && (is_gradient(reader.phase) || may_repeat_[use.op.index()]);
    });
  }

  const LogicalGraph& graph_;
  const std::vector<bool> may_repeat_;
  std::vector<bool> repeats_;
};

// Tensors that a stage holds for every micro-batch whose backward is to come, by layer.
class SavedTensors {
 public:
  SavedTensors(const LogicalGraph& graph, const std::vector<bool>& may_repeat,
               const std::vector<bool>& repeats)
      : graph_(graph),
        may_repeat_(may_repeat),
        repeats_(repeats),
        live_(live_ops(graph)),
        changing_(changing_ops(graph)) {}

  std::vector<Bytes> by_layer() const {
    std::vector<Bytes> saved(at(graph_.num_layers()));
    for (std::size_t index = 0; index < graph_.tensors().size(); ++index) {
      const TensorId id(index);
      const LogicalTensor& tensor = graph_.tensor(id);
      const LogicalOp& producer = graph_.op(tensor.producer);
      if (is_saved_in_layer(id)) {
        if (is_view_kind(producer.kind) && is_saved_in_layer(producer.inputs[0])) continue;
        saved[at(producer.layer)] += size_of(tensor.type);
      } else if (const int reader = only_layer_behind(id); reader >= 0) {
        saved[at(reader)] += size_of(tensor.type);
      }
    }
    return saved;
  }

 private:
  bool is_kept(TensorId id) const {
    const OpId producer = graph_.tensor(id).producer;
    return graph_.op(producer).phase == Phase::kForward && changing_[producer.index()] &&
           !may_repeat_[producer.index()];
  }
  // Acts inside backward, where it reads what forward kept.
  bool reads_in_backward(OpId op) const {
    return live_[op.index()] && (is_gradient(graph_.op(op).phase) || repeats_[op.index()]);
  }
  bool is_saved_in_layer(TensorId id) const {
    if (!is_kept(id)) return false;
    const int layer = graph_.op(graph_.tensor(id).producer).layer;
    const auto uses = graph_.uses(id);
    return std::any_of(uses.begin(), uses.end(), [&](const LogicalGraph::Use& use) {
      return reads_in_backward(use.op) && graph_.op(use.op).layer == layer;
    });
  }
  // What a layer gets from the one before it is on its stage from its forward to its backward,
  // wherever it was made; -1: none, or several layers may share it. Backward of its own layer, or
  // a repetition there, keeps it for that layer.
  int only_layer_behind(TensorId id) const {
    const OpId made_by = graph_.tensor(id).producer;
    const LogicalOp& producer = graph_.op(made_by);
    if (producer.phase != Phase::kForward || !changing_[made_by.index()]) return -1;
    if (is_view_kind(producer.kind)) return -1;
    int layer = -1;
    bool forward = false, backward = false;
    for (const LogicalGraph::Use& use : graph_.uses(id)) {
      const LogicalOp& reader = graph_.op(use.op);
      if (reader.layer == producer.layer) {
        if (is_gradient(reader.phase) || may_repeat_[use.op.index()]) return -1;
        continue;
      }
      if (layer >= 0 && layer != reader.layer) return -1;
      layer = reader.layer;
      forward = forward || reader.phase == Phase::kForward;
      backward = backward || reads_in_backward(use.op);
    }
    return forward && backward ? layer : -1;
  }

  const LogicalGraph& graph_;
  const std::vector<bool>&may_repeat_, &repeats_;
  const std::vector<bool> live_, changing_;
};

// Bytes of what adds up over micro-batches to this gradient, at least: through what is made of it
// once per step.
Bytes accumulated(const LogicalGraph& graph, TensorId gradient) {
  const LogicalTensor& tensor = graph.tensor(gradient);
  const LogicalOp& producer = graph.op(tensor.producer);
  if (producer.phase != Phase::kOptimizer) return size_of(tensor.type);
  Bytes least = size_of(tensor.type);
  bool found = false;
  for (const TensorId input : producer.inputs)
    if (graph.tensor(input).type.shape == tensor.type.shape &&
        graph.tensor(input).role == TensorRole::kGradient)
      found = true, least = std::min(least, accumulated(graph, input));
  return found ? least : Bytes();
}

}  // namespace

Strategy plain_strategy(const Strategy& strategy) {
  Strategy plain;
  plain.dp = strategy.dp;
  plain.micro_batch = strategy.micro_batch;
  return plain;
}

GraphProfile::GraphProfile(const LogicalGraph& training) : num_layers_(training.num_layers()) {
  const std::vector<Rate> rates = rates_of(training);
  const std::vector<bool> core = attention_core(training);
  const std::size_t num_ops = training.ops().size();
  for (std::size_t again = 0; again < kNumAgain; ++again) {
    may_repeat_[again].assign(num_ops, false);
    for (std::size_t op = 0; op < num_ops && again > 0; ++op) {
      const LogicalOp& candidate = training.op(OpId(op));
      const OperatorDef& def = training.registry().get(candidate.kind);
      may_repeat_[again][op] = (again == static_cast<std::size_t>(Again::kAll) || core[op]) &&
                               candidate.phase == Phase::kForward &&
                               rates[op] == Rate::kPerMicroBatch && !candidate.inputs.empty() &&
                               def.state_outputs.empty() && !def.on_host;
    }
    repeats_[again] = CertainRepeats(training, may_repeat_[again]).take();
  }
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
    entry.kind = logical.kind;
    switch (logical.phase) {
      case Phase::kData:
      case Phase::kCommunication:
      case Phase::kRecompute:
        continue;
      case Phase::kForward:
        entry.part = Part::kForward;
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
    entry.again_selective = repeats_[static_cast<std::size_t>(Again::kSelective)][op];
    entry.again_full = repeats_[static_cast<std::size_t>(Again::kAll)][op];
    entry.work = def.work(types_of(training, logical.inputs), types_of(training, logical.outputs),
                          logical.attributes);
    // Without its extents a matmul has the efficiency of a large one, which none exceeds.
    entry.work.kernel = entry.work.kernel.substr(0, entry.work.kernel.find(':'));
    if (entry.work.flops > 0 || (entry.work.read + entry.work.written).value > 0)
      add_work(logical.layer, std::move(entry));
  }
}

void GraphProfile::add_work(int layer, OpWork work) {
  const auto known = std::find(ops_.begin(), ops_.end(), work);
  layer_ops_.push_back({layer, static_cast<std::size_t>(known - ops_.begin())});
  if (known == ops_.end()) ops_.push_back(std::move(work));
}

GraphProfile::FusedUse GraphProfile::fused_use(const std::string& kind,
                                               const std::set<std::string>& kinds,
                                               const LeastCosts& costs) {
  FusedUse use = FusedUse::kNone;
  for (const FusedKind& fused : fused_kinds()) {
    if (!costs.fuses(fused.kind)) continue;
    const auto links = fused.members();
    const bool may_occur = std::all_of(links.begin(), links.end(), [&](const auto& link) {
      return kinds.contains(std::string(link.kind));
    });
    if (!may_occur) continue;
    for (std::size_t i = 0; i < links.size(); ++i)
      // What a product reads may be cut out of something larger; the product costs what it does.
      if (links[i].kind == kind)
        use = std::max(use, i == 0 || kind == "matmul" ? FusedUse::kLeads : FusedUse::kFollows);
  }
  return use;
}

const std::vector<GraphProfile::FusedUse>& GraphProfile::fused_uses(bool in_pieces,
                                                                    const LeastCosts& costs) const {
  std::vector<FusedUse>& uses = fused_uses_[in_pieces ? 1 : 0];
  if (!uses.empty()) return uses;
  std::set<std::string> occurring;
  for (const OpWork& op : ops_) occurring.insert(op.kind);
  if (in_pieces) occurring.insert(std::begin(kKindsOfPieces), std::end(kKindsOfPieces));
  for (const OpWork& op : ops_) uses.push_back(fused_use(op.kind, occurring, costs));
  return uses;
}

void GraphProfile::collect_parameters(const LogicalGraph& training) {
  const std::vector<bool> changing = changing_ops(training);
  // Read by the forward and by the backward of every micro-batch.
  const auto is_read_by_both = [&](TensorId tensor) {
    bool forward = false, backward = false;
    for (const LogicalGraph::Use& use : training.uses(tensor)) {
      if (!changing[use.op.index()]) continue;
      forward = forward || training.op(use.op).phase == Phase::kForward;
      backward = backward || is_gradient(training.op(use.op).phase);
    }
    return forward && backward;
  };
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
        parameter.gradient = std::max(parameter.gradient, accumulated(training, input));
      if (tensor.role != TensorRole::kParameter || !producer.parameter) continue;
      if (const auto dim = producer.parameter->tensor_parallel_dim)
        parameter.split_extent = tensor.type.shape[*dim];
      if (const auto dim = producer.parameter->expert_parallel_dim)
        parameter.expert_extent = tensor.type.shape[*dim];
      if (is_read_by_both(input) && tensor.type.shape.elements() >= kSmallestSharded)
        parameter.read_whole += size_of(tensor.type);
      for (const LogicalGraph::Use& use : training.uses(input)) {
        const LogicalOp& reader = training.op(use.op);
        if (reader.phase != Phase::kForward || reader.outputs.size() != 1 ||
            changing[use.op.index()] || is_view_kind(reader.kind))
          continue;
        const TensorType& made = training.tensor(reader.outputs[0]).type;
        if (made.shape == tensor.type.shape && is_read_by_both(reader.outputs[0]))
          parameter.copies += size_of(made);
      }
    }
    parameters_.push_back(parameter);
  }
}

void GraphProfile::collect_saved(const LogicalGraph& training) {
  for (std::size_t again = 0; again < kNumAgain; ++again)
    saved_[again] = SavedTensors(training, may_repeat_[again], repeats_[again]).by_layer();
}

std::vector<GraphProfile::Again> GraphProfile::again_of_layers(
    const Strategy& strategy, const std::vector<LayerPlace>& places) const {
  std::vector<Again> again(places.size(), Again::kNothing);
  switch (strategy.recompute.kind) {
    case Recompute::Kind::kNone:
      return again;
    case Recompute::Kind::kSelective:
      again.assign(places.size(), Again::kSelective);
      return again;
    case Recompute::Kind::kFull:
      again.assign(places.size(), Again::kAll);
      return again;
    case Recompute::Kind::kLayers:
      break;
  }
  // The first and the last layer of the model are no blocks.
  int in_chunk = 0;
  for (std::size_t layer = 1; layer + 1 < places.size(); ++layer) {
    const bool begins =
        layer == 1 || places[layer].virtual_stage != places[layer - 1].virtual_stage;
    in_chunk = begins ? 1 : in_chunk + 1;
    if (in_chunk <= strategy.recompute.layers) again[layer] = Again::kAll;
  }
  return again;
}

const std::vector<GraphProfile::StageBytes>& GraphProfile::parameters_of_layers(
    const Strategy& strategy, int zero) const {
  const auto [place, is_new] =
      layer_parameters_.try_emplace(ShareKey(strategy.dp, strategy.tp, strategy.ep, zero));
  if (!is_new) return place->second;
  std::vector<StageBytes>& layers = place->second;
  layers.resize(at(num_layers_));
  for (const Parameter& parameter : parameters_) {
    // The part of the first rank: never smaller than that of another.
    const auto part_of = [&](Bytes whole, std::int64_t extent, std::int64_t parts) {
      if (extent == 0 || parts == 1) return whole;
      return Bytes(whole.value / extent * ceil_divide(extent, parts));
    };
    const bool is_expert = parameter.expert_extent > 0 && strategy.ep > 1;
    const auto share = [&](Bytes whole) {
      const Bytes part = part_of(whole, parameter.split_extent, strategy.tp);
      return is_expert ? part_of(part, parameter.expert_extent, strategy.ep) : part;
    };
    // Replicas that are left to divide what ep has not.
    const std::int64_t replicas = is_expert ? strategy.dp / strategy.ep : strategy.dp;
    StageBytes& layer = layers[at(parameter.layer)];
    layer.states += Bytes(share(parameter.states).value / (zero >= 1 ? replicas : 1));
    layer.gradients += Bytes(share(parameter.gradient).value / (zero >= 2 ? replicas : 1));
    if (zero < 3) layer.copies += share(parameter.copies);
    if (zero < 3 && zero >= 1 && replicas > 1) layer.copies += share(parameter.read_whole);
  }
  return layers;
}

// By stage and chunk, without what is saved.
std::vector<GraphProfile::StageBytes> GraphProfile::parameter_bytes(
    const Strategy& strategy, const std::vector<LayerPlace>& places, int zero) const {
  const auto chunks = static_cast<std::size_t>(strategy.virtual_stages);
  std::vector<StageBytes> bytes(static_cast<std::size_t>(strategy.pp) * chunks);
  const std::vector<StageBytes>& layers = parameters_of_layers(strategy, zero);
  for (std::size_t layer = 0; layer < layers.size(); ++layer) {
    StageBytes& chunk = bytes[at(places[layer].stage) * chunks + at(places[layer].chunk)];
    chunk.states += layers[layer].states;
    chunk.gradients += layers[layer].gradients;
    chunk.copies += layers[layer].copies;
  }
  return bytes;
}

std::vector<Bytes> GraphProfile::gradient_bytes(const Strategy& strategy,
                                                const std::vector<LayerPlace>& places) const {
  const auto chunks = static_cast<std::size_t>(strategy.virtual_stages);
  std::vector<Bytes> by_stage(static_cast<std::size_t>(strategy.pp));
  const std::vector<StageBytes> bytes = parameter_bytes(strategy, places, 0);
  for (std::size_t chunk = 0; chunk < bytes.size(); ++chunk)
    by_stage[chunk / chunks] += bytes[chunk].gradients;
  return by_stage;
}

std::vector<Bytes> GraphProfile::memory_bound(const Strategy& strategy,
                                              const std::vector<LayerPlace>& places,
                                              std::int64_t micro_batches, Open open) const {
  return likely_memory(strategy, places, micro_batches, open, {});
}

std::vector<Bytes> GraphProfile::likely_memory(const Strategy& strategy,
                                               const std::vector<LayerPlace>& places,
                                               std::int64_t micro_batches, Open open,
                                               const std::vector<double>& whole) const {
  const int zero = open.zero && strategy.dp > 1 ? 3 : strategy.zero;
  std::vector<StageBytes> bytes = parameter_bytes(strategy, places, zero);
  const auto chunks = static_cast<std::size_t>(strategy.virtual_stages);
  const std::int64_t shares = strategy.dp * strategy.cp * strategy.tp;
  const std::vector<Again> again = again_of_layers(strategy, places);
  for (int layer = 0; layer < num_layers_; ++layer) {
    Bytes saved = saved_[static_cast<std::size_t>(again[at(layer)])][at(layer)];
    if (open.recompute)
      for (const std::vector<Bytes>& kept : saved_) saved = std::min(saved, kept[at(layer)]);
    Bytes part = Bytes(saved.value / shares);
    if (!whole.empty())
      part = Bytes(
          static_cast<std::int64_t>(static_cast<double>(part.value) *
                                    (1 + whole[at(layer)] * static_cast<double>(strategy.tp - 1))));
    const LayerPlace& place = places[at(layer)];
    bytes[at(place.stage) * chunks + at(place.chunk)].saved += part;
  }
  if (!whole.empty()) add_passing(strategy, places, zero, whole, bytes);
  return most_held(strategy, micro_batches, bytes);
}

// Of a guess: what one layer at a time takes. What it repeats, its gathered parameters and those
// of the layer ahead, its gradients before they are scattered.
void GraphProfile::add_passing(const Strategy& strategy, const std::vector<LayerPlace>& places,
                               int zero, const std::vector<double>& whole,
                               std::vector<StageBytes>& bytes) const {
  const auto chunks = static_cast<std::size_t>(strategy.virtual_stages);
  const auto shares = static_cast<double>(strategy.dp * strategy.cp * strategy.tp);
  const std::vector<StageBytes>& parameters = parameters_of_layers(strategy, 0);
  const std::vector<Again> again = again_of_layers(strategy, places);
  std::vector<Bytes> most(static_cast<std::size_t>(strategy.pp));
  for (std::size_t layer = 0; layer < places.size(); ++layer) {
    Bytes own;
    if (again[layer] == Again::kAll)
      own += Bytes(static_cast<std::int64_t>(
          static_cast<double>(saved_[static_cast<std::size_t>(Again::kNothing)][layer].value) /
          shares * (1 + whole[layer] * static_cast<double>(strategy.tp - 1))));
    if (zero == 3) own += 2 * parameters[layer].copies;
    if (zero >= 2) own += parameters[layer].gradients;
    Bytes& stage = most[at(places[layer].stage)];
    stage = std::max(stage, own);
  }
  for (std::size_t stage = 0; stage < most.size(); ++stage)
    bytes[stage * chunks].states += most[stage];
}

std::vector<Bytes> GraphProfile::most_held(const Strategy& strategy, std::int64_t micro_batches,
                                           const std::vector<StageBytes>& bytes) const {
  const auto stages = static_cast<std::size_t>(strategy.pp);
  const auto chunks = static_cast<std::size_t>(strategy.virtual_stages);
  const PipelineMoments& moments =
      moments_.of(strategy.schedule,
                  {static_cast<std::int32_t>(strategy.pp), static_cast<std::int32_t>(micro_batches),
                   static_cast<std::int32_t>(strategy.virtual_stages)});
  std::vector<Bytes> most(stages);
  for (std::size_t stage = 0; stage < stages; ++stage) {
    Bytes states;
    for (std::size_t chunk = 0; chunk < chunks; ++chunk)
      states += bytes[stage * chunks + chunk].states;
    most[stage] = states;
    for (const StageMoment& moment : moments[stage]) {
      Bytes held = states;
      for (std::size_t chunk = 0; chunk < chunks; ++chunk) {
        const StageBytes& own = bytes[stage * chunks + chunk];
        held += own.saved * moment.in_flight[chunk];
        if (moment.in_flight[chunk] > 0) held += own.copies;
        if (moment.has_gradients[chunk]) held += own.gradients;
      }
      most[stage] = std::max(most[stage], held);
    }
  }
  return most;
}

const std::vector<GraphProfile::LayerWork>& GraphProfile::layer_work(const Strategy& strategy,
                                                                     DeviceKinds kinds,
                                                                     const LeastCosts& costs,
                                                                     Open open) const {
  const std::int64_t shares = strategy.dp * strategy.cp * strategy.tp;
  const bool is_sharded = strategy.zero > 0 || (open.zero && strategy.dp > 1);
  const std::int64_t optimizer_shares =
      is_sharded ? shares : strategy.tp * strategy.cp * strategy.ep;
  const bool in_pieces = open.pieces || strategy.pieces > 1;
  const auto [place, is_new] =
      layer_work_.try_emplace(WorkKey(shares, optimizer_shares, in_pieces, kinds));
  if (!is_new) return place->second;
  place->second.resize(at(num_layers_));
  const std::vector<FusedUse>& uses = fused_uses(in_pieces, costs);
  std::vector<Duration> least(ops_.size());
  for (std::size_t index = 0; index < ops_.size(); ++index) {
    const OpWork& op = ops_[index];
    if (is_view_kind(op.kind) || uses[index] == FusedUse::kFollows) continue;
    const std::int64_t by = op.part == Part::kOptimizer ? optimizer_shares : shares;
    Work work = op.work;
    work.flops /= static_cast<double>(by);
    work.read.value /= by;
    work.written.value /= by;
    if (uses[index] == FusedUse::kLeads) work.written = Bytes();
    least[index] = costs.duration(kinds, work);
  }
  for (const LayerOp& op : layer_ops_) {
    const OpWork& work = ops_[op.work];
    LayerWork& layer = place->second[at(op.layer)];
    const auto add = [&](Part part) { layer[static_cast<std::size_t>(part)] += least[op.work]; };
    add(work.part);
    if (work.again_selective) add(Part::kAgainSelective);
    if (work.again_full) add(Part::kAgainFull);
  }
  return place->second;
}

Duration GraphProfile::least_time(const Strategy& strategy, std::int64_t micro_batches,
                                  const LeastCosts& costs) const {
  const Open open{.recompute = true, .zero = true, .pieces = strategy.tp > 1};
  const DeviceKinds kinds = costs.kinds_of(0, strategy.ranks());
  LayerWork all{};
  for (const LayerWork& layer : layer_work(strategy, kinds, costs, open))
    for (std::size_t part = 0; part < kNumParts; ++part) all[part] += layer[part];
  const auto of = [&](Part part) { return all[static_cast<std::size_t>(part)]; };
  const Duration step =
      (of(Part::kForward) + of(Part::kInputGrad) + of(Part::kWeightGrad)) * micro_batches +
      of(Part::kOptimizer);
  return Duration(step.value / strategy.pp);
}

Duration GraphProfile::time_bound(const Strategy& strategy, const std::vector<LayerPlace>& places,
                                  std::int64_t micro_batches, const LeastCosts& costs,
                                  Open open) const {
  const std::int64_t ranks = strategy.ranks() / strategy.pp;
  std::vector<const std::vector<LayerWork>*> of_stage;
  for (std::int64_t stage = 0; stage < strategy.pp; ++stage)
    of_stage.push_back(&layer_work(strategy, costs.kinds_of(stage * ranks, ranks), costs, open));
  const std::vector<Again> again = again_of_layers(strategy, places);
  // Of one stage or chunk, one micro-batch.
  struct Cells {
    Duration forward, again, input_grad, weight_grad, optimizer;
    Duration through() const { return forward + input_grad; }
  };
  std::vector<Cells> by_stage(static_cast<std::size_t>(strategy.pp)), first_chunk = by_stage;
  for (std::size_t layer = 0; layer < places.size(); ++layer) {
    const auto stage = at(places[layer].stage);
    const LayerWork& work = (*of_stage[stage])[layer];
    const auto of = [&](Part part) { return work[static_cast<std::size_t>(part)]; };
    const auto add = [&](Cells& cells) {
      cells.forward += of(Part::kForward);
      if (again[layer] == Again::kSelective) cells.again += of(Part::kAgainSelective);
      if (again[layer] == Again::kAll) cells.again += of(Part::kAgainFull);
      cells.input_grad += of(Part::kInputGrad);
      cells.weight_grad += of(Part::kWeightGrad);
      cells.optimizer += of(Part::kOptimizer);
    };
    add(by_stage[stage]);
    if (places[layer].chunk == 0) add(first_chunk[stage]);
  }

  const Cells& first = first_chunk.front();
  Duration bound, way;  // way: one micro-batch down to the stage and back up
  for (std::size_t index = 0; index < by_stage.size(); ++index) {
    const Cells& stage = by_stage[index];
    const Duration there = stage.through() + stage.again;
    bound = std::max(bound, (there + stage.weight_grad) * micro_batches + stage.optimizer);
    Duration path = way + there * micro_batches;
    if (!parts_backward(strategy.schedule)) path += stage.weight_grad * (micro_batches - 1);
    if (index > 0) bound = std::max(bound, path + first.weight_grad + first.optimizer);
    // What is recomputed waits for no gradient, so it is not on the way back up.
    way += first_chunk[index].through();
  }
  return bound;
}

}  // namespace sextant
