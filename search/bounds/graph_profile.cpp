// What a training graph says that bounds need: work, parameters, what backward keeps.
#include "compiler/training/recompute.h"
#include "core/base/at.h"
#include "core/graphs/kernel_names.h"
#include "core/graphs/operator.h"
#include "core/graphs/tensor_types.h"
#include "core/graphs/views.h"
#include "search/bounds/bounds.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <tuple>
#include <utility>

namespace sextant {
namespace {

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
        if (producer.role == OperatorRole::kView && is_saved_in_layer(producer.inputs[0])) continue;
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
    if (producer.role == OperatorRole::kView) return -1;
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

// Where weight gradients are cells of their own, what they read is there from the backward cell on:
// of forward or of backward, or made again there. By layer, a tensor once: for its own layer, else
// for the only one that reads it so.
std::vector<Bytes> awaited_by_layer(const LogicalGraph& graph) {
  const std::vector<bool> live = live_ops(graph), changing = changing_ops(graph);
  constexpr int kNobody = -1, kSeveral = -2;
  std::vector<int> layer_of(graph.tensors().size(), kNobody);
  for (std::size_t index = 0; index < graph.ops().size(); ++index) {
    const LogicalOp& reader = graph.op(OpId(index));
    if (reader.phase != Phase::kWeightGrad || !live[index]) continue;
    for (TensorId input : reader.inputs) {
      // A view is the bytes of its source.
      while (graph.op(graph.tensor(input).producer).role == OperatorRole::kView)
        input = graph.op(graph.tensor(input).producer).inputs[0];
      const OpId made_by = graph.tensor(input).producer;
      const LogicalOp& producer = graph.op(made_by);
      const bool is_made_before =
          producer.phase == Phase::kForward || producer.phase == Phase::kInputGrad;
      if (!is_made_before || !changing[made_by.index()]) continue;
      int& layer = layer_of[input.index()];
      if (reader.layer == producer.layer || layer == kNobody)
        layer = reader.layer;
      else if (layer != reader.layer && layer != producer.layer)
        layer = kSeveral;
    }
  }
  std::vector<Bytes> awaited(at(graph.num_layers()));
  for (std::size_t index = 0; index < layer_of.size(); ++index)
    if (layer_of[index] >= 0)
      awaited[at(layer_of[index])] += size_of(graph.tensor(TensorId(index)).type);
  return awaited;
}

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
  plain.precision = strategy.precision;
  return plain;
}

GraphProfile::GraphProfile(const LogicalGraph& training) : num_layers_(training.num_layers()) {
  const std::vector<Rate> rates = rates_of(training);
  const std::vector<bool> core = attention_core(training);
  const std::size_t num_ops = training.ops().size();
  for (const Again again : saved_.keys()) {
    may_repeat_[again].assign(num_ops, false);
    for (std::size_t op = 0; op < num_ops && again != Again::kNothing; ++op) {
      const LogicalOp& candidate = training.op(OpId(op));
      const OperatorDef& def = training.registry().get(candidate.kind);
      may_repeat_[again][op] = (again == Again::kAll || core[op]) &&
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

GraphProfile::GraphProfile(const LogicalGraph& shorter, const std::vector<int>& like_layers)
    : GraphProfile(shorter) {
  spread(like_layers);
}

// Every layer gets what the one that it is like has.
void GraphProfile::spread(const std::vector<int>& like_layers) {
  const auto of_layer = [](const auto& all, int layer, auto&& use) {
    for (const auto& one : all)
      if (one.layer == layer) use(one);
  };
  std::vector<LayerOp> ops;
  std::vector<Parameter> parameters;
  FixedTable<Again, std::vector<Bytes>, kNumAgain> saved;
  std::vector<Bytes> awaited;
  for (std::size_t layer = 0; layer < like_layers.size(); ++layer) {
    const int own = static_cast<int>(layer), like = like_layers[layer];
    of_layer(layer_ops_, like, [&](LayerOp op) { ops.push_back({own, op.work}); });
    of_layer(parameters_, like, [&](Parameter parameter) {
      parameter.layer = own;
      parameters.push_back(parameter);
    });
    for (const Again again : saved_.keys()) saved[again].push_back(saved_[again][at(like)]);
    awaited.push_back(awaited_[at(like)]);
  }
  layer_ops_ = std::move(ops);
  parameters_ = std::move(parameters);
  saved_ = std::move(saved);
  awaited_ = std::move(awaited);
  num_layers_ = static_cast<int>(like_layers.size());
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
    entry.role = logical.role;
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
    entry.again_selective = repeats_[Again::kSelective][op];
    entry.again_full = repeats_[Again::kAll][op];
    entry.work = def.work(types_of(training, logical.inputs), types_of(training, logical.outputs),
                          logical.attributes);
    // Without its extents a matmul has the efficiency of a large one, which none exceeds; so has
    // attention.
    entry.work.kernel = kernel_of_any_extents(entry.work.kernel);
    if (entry.work.flops > 0 || (entry.work.read + entry.work.written).value > 0)
      add_work(logical.layer, std::move(entry));
  }
}

void GraphProfile::add_work(int layer, OpWork work) {
  const auto known = std::find(ops_.begin(), ops_.end(), work);
  layer_ops_.push_back({layer, static_cast<std::size_t>(known - ops_.begin())});
  if (known == ops_.end()) ops_.push_back(std::move(work));
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
      parameter.in_parts = tensor.type.shape.elements() >= kSmallestSharded;
      if (is_read_by_both(input) && parameter.in_parts)
        parameter.read_whole += size_of(tensor.type);
      for (const LogicalGraph::Use& use : training.uses(input)) {
        const LogicalOp& reader = training.op(use.op);
        if (reader.phase != Phase::kForward || reader.outputs.size() != 1 ||
            changing[use.op.index()] || reader.role == OperatorRole::kView)
          continue;
        const TensorType& made = training.tensor(reader.outputs[0]).type;
        if (made.shape == tensor.type.shape && is_read_by_both(reader.outputs[0]))
          parameter.copies += size_of(made);
      }
    }
    parameters_.push_back(parameter);
  }
}

GraphProfile::ReplicasOfLayers GraphProfile::replica_times(const ReplicaExchange& exchange,
                                                           const std::vector<bool>& alike) const {
  // Few parameters differ in what is asked for.
  using Question = std::tuple<Bytes, Bytes, bool, bool>;
  std::map<Question, ReplicaTimes> known;
  ReplicasOfLayers layers(at(num_layers_));
  for (const Parameter& parameter : parameters_) {
    if (!alike[at(parameter.layer)]) continue;
    const Bytes copies = parameter.copies + parameter.read_whole;
    const bool is_expert = parameter.expert_extent > 0;
    const auto [place, is_new] = known.try_emplace(
        Question(parameter.gradient, copies, is_expert, parameter.in_parts), ReplicaTimes());
    if (is_new)
      place->second = exchange.times_of(parameter.gradient, copies, is_expert, parameter.in_parts);
    layers[at(parameter.layer)] += place->second;
  }
  return layers;
}

Bytes GraphProfile::gradients_of_layer(int layer) const {
  Bytes sum;
  for (const Parameter& parameter : parameters_)
    if (parameter.layer == layer) sum += parameter.gradient;
  return sum;
}

void GraphProfile::collect_saved(const LogicalGraph& training) {
  for (const Again again : saved_.keys())
    saved_[again] = SavedTensors(training, may_repeat_[again], repeats_[again]).by_layer();
  awaited_ = awaited_by_layer(training);
}

}  // namespace sextant
