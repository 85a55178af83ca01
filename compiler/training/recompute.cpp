// Which operators repeat (from the last layer to the first), and the graph rebuilt with them.
#include "compiler/training/recompute.h"

#include "compiler/strategy/layer_counts.h"
#include "compiler/strategy/layer_places.h"
#include "compiler/training/autodiff.h"
#include "compiler/training/rates.h"
#include "core/base/check.h"
#include "core/graphs/graph_rewriter.h"
#include "core/graphs/operator.h"

#include <algorithm>
#include <functional>
#include <utility>

namespace sextant {
namespace {

bool is_gradient(Phase phase) { return phase == Phase::kInputGrad || phase == Phase::kWeightGrad; }

// The first `count` blocks of every chunk; embedding and head are no blocks.
std::vector<bool> first_blocks(const std::vector<LayerPlace>& places, int count) {
  std::vector<bool> chosen(places.size(), false);
  int largest = 0, in_chunk = 0;
  for (std::size_t layer = 1; layer + 1 < places.size(); ++layer) {
    const bool begins =
        layer == 1 || places[layer].virtual_stage != places[layer - 1].virtual_stage;
    in_chunk = begins ? 1 : in_chunk + 1;
    chosen[layer] = in_chunk <= count;
    largest = std::max(largest, in_chunk);
  }
  require(count <= largest, ErrorCode::kInfeasible,
          "recompute={}: no chunk of a stage has more than {} layers between the first and the "
          "last of the model; recompute=full repeats all",
          count, largest);
  return chosen;
}

class Recomputation {
 public:
  Recomputation(const LogicalGraph& training, const Strategy& strategy,
                const std::vector<bool>& kept)
      : training_(training),
        places_(place_layers(training.num_layers(), strategy)),
        may_repeat_(training.ops().size(), false),
        repeats_(training.ops().size(), false),
        reads_repetition_(training.tensors().size(), false),
        rewriter_(training),
        repetitions_(training.tensors().size()) {
    choose(strategy.recompute);
    for (std::size_t index = 0; index < kept.size(); ++index)
      if (kept[index]) may_repeat_[index] = false;
    find_repeated();
  }

  LogicalGraph run() {
    std::vector<bool> is_repeated(static_cast<std::size_t>(training_.num_layers()), false);
    for (std::size_t index = 0; index < training_.ops().size(); ++index) {
      const LogicalOp& op = training_.op(OpId(index));
      const auto layer = static_cast<std::size_t>(op.layer);
      if (is_gradient(op.phase) && !is_repeated[layer]) {
        is_repeated[layer] = true;
        repeat_layer(op.layer);
      }
      copy(OpId(index));
    }
    return std::move(rewriter_).finish();
  }

 private:
  void choose(const Recompute& recompute) {
    const std::vector<Rate> rates = rates_of(training_);
    std::vector<bool> layers(places_.size(), true);
    if (recompute.kind == Recompute::Kind::kLayers)
      layers = first_blocks(places_, recompute.layers);
    std::vector<bool> core(training_.ops().size(), true);
    if (recompute.kind == Recompute::Kind::kSelective) core = attention_core(training_);
    require(std::find(core.begin(), core.end(), true) != core.end(), ErrorCode::kInfeasible,
            "recompute=selective repeats attention, and the model has none");
    for (std::size_t index = 0; index < training_.ops().size(); ++index) {
      const LogicalOp& op = training_.op(OpId(index));
      const OperatorDef& def = training_.registry().get(op.kind);
      may_repeat_[index] = core[index] && layers[static_cast<std::size_t>(op.layer)] &&
                           op.phase == Phase::kForward && rates[index] == Rate::kPerMicroBatch &&
                           !op.inputs.empty() && def.state_outputs.empty() && !def.on_host;
    }
  }

  // What a later layer keeps is known when its turn is over.
  void find_repeated() {
    std::vector<std::vector<OpId>> gradients(places_.size());
    for (std::size_t index = 0; index < training_.ops().size(); ++index) {
      const LogicalOp& op = training_.op(OpId(index));
      if (is_gradient(op.phase)) gradients[static_cast<std::size_t>(op.layer)].emplace_back(index);
    }
    for (std::size_t layer = gradients.size(); layer-- > 0;)
      for (const OpId id : gradients[layer])
        for (const TensorId input : training_.op(id).inputs) want(input, static_cast<int>(layer));
  }

  void want(TensorId tensor, int layer) {
    const OpId producer = training_.tensor(tensor).producer;
    const LogicalOp& op = training_.op(producer);
    if (!may_repeat_[producer.index()] || op.layer != layer || is_kept(tensor, layer)) return;
    reads_repetition_[tensor.index()] = true;
    if (repeats_[producer.index()]) return;
    repeats_[producer.index()] = true;
    for (const TensorId input : op.inputs) want(input, layer);
  }

  // Backward of another layer on the same device reads the tensor, so it is there anyway.
  bool is_kept(TensorId tensor, int layer) const {
    const auto uses = training_.uses(tensor);
    return std::any_of(uses.begin(), uses.end(), [&](const LogicalGraph::Use& use) {
      const LogicalOp& reader = training_.op(use.op);
      return reader.layer != layer && stage_of(reader.layer) == stage_of(layer) &&
             (is_gradient(reader.phase) || repeats_[use.op.index()]);
    });
  }
  int stage_of(int layer) const { return places_[static_cast<std::size_t>(layer)].stage; }

  // The tensor of the new graph that an operator of the layer reads.
  TensorId mapped(TensorId tensor, int layer, bool inside_backward) const {
    const bool own = training_.op(training_.tensor(tensor).producer).layer == layer;
    return inside_backward && own && reads_repetition_[tensor.index()]
               ? repetitions_[tensor.index()]
               : rewriter_.copied(tensor);
  }

  void copy(OpId id) {
    LogicalOp op = training_.op(id);
    for (TensorId& input : op.inputs) input = mapped(input, op.layer, is_gradient(op.phase));
    rewriter_.put(std::move(op), id);
  }

  void repeat_layer(int layer) {
    LogicalGraph& graph = rewriter_.graph();
    for (std::size_t index = 0; index < training_.ops().size(); ++index) {
      const OpId id(index);
      if (!repeats_[index] || training_.op(id).layer != layer) continue;
      LogicalOp op = training_.op(id);
      for (TensorId& input : op.inputs) input = mapped(input, layer, true);
      op.name = unused_name(graph, op.name + ".recompute");
      op.phase = Phase::kRecompute;
      op.recompute_of = rewriter_.copied(id);
      const OpId added = graph.add(std::move(op));
      for (std::size_t i = 0; i < training_.op(id).outputs.size(); ++i)
        repetitions_[training_.op(id).outputs[i].index()] = graph.output(added, i);
    }
  }

  const LogicalGraph& training_;
  std::vector<LayerPlace> places_;
  std::vector<bool> may_repeat_, repeats_;  // by operator
  std::vector<bool> reads_repetition_;      // by tensor: backward of its layer reads the repetition
  GraphRewriter rewriter_;
  std::vector<TensorId> repetitions_;  // by tensor of the old graph
};

// How far an operator is on a path through attention written out.
enum class Passed : std::uint8_t { kNothing, kScores, kSoftmax };

}  // namespace

std::string recompute_key(const Strategy& strategy) {
  std::string key =
      fmt::format("recompute={} pp={} virtual={} schedule={}", to_string(strategy.recompute),
                  strategy.pp, strategy.virtual_stages, to_string(strategy.schedule));
  if (!strategy.layers.empty()) key += " layers=" + layers_to_text(strategy.layers);
  return key;
}

std::vector<bool> attention_core(const LogicalGraph& graph) {
  std::vector<bool> core(graph.ops().size(), false);
  std::vector<Passed> passed(graph.ops().size(), Passed::kNothing);
  const auto producer = [&](TensorId tensor) { return graph.tensor(tensor).producer; };
  // Back to the product that made the scores.
  const std::function<void(OpId)> mark = [&](OpId id) {
    if (core[id.index()] || passed[id.index()] == Passed::kNothing) return;
    core[id.index()] = true;
    if (graph.op(id).role == OperatorRole::kBatchProduct) return;
    for (const TensorId input : graph.op(id).inputs) mark(producer(input));
  };
  for (std::size_t index = 0; index < graph.ops().size(); ++index) {
    const LogicalOp& op = graph.op(OpId(index));
    if (op.phase != Phase::kForward) continue;
    core[index] = core[index] || is_attention(op.role);
    for (const TensorId input : op.inputs)
      if (graph.op(producer(input)).layer == op.layer)
        passed[index] = std::max(passed[index], passed[producer(input).index()]);
    if (op.role == OperatorRole::kProduct || op.role == OperatorRole::kScaledProduct)
      passed[index] = Passed::kNothing;
    if (op.role == OperatorRole::kSoftmax && passed[index] == Passed::kScores)
      passed[index] = Passed::kSoftmax;
    if (op.role != OperatorRole::kBatchProduct) continue;
    if (passed[index] == Passed::kSoftmax) {
      for (const TensorId input : op.inputs)
        if (passed[producer(input).index()] == Passed::kSoftmax) mark(producer(input));
      core[index] = true;
    }
    passed[index] = Passed::kScores;
  }
  return core;
}

LogicalGraph with_recompute(LogicalGraph training, const Strategy& strategy) {
  return with_recompute(std::move(training), strategy, {});
}

LogicalGraph with_recompute(LogicalGraph training, const Strategy& strategy,
                            const std::vector<bool>& kept) {
  if (strategy.recompute == Recompute()) return training;
  return Recomputation(training, strategy, kept).run();
}

}  // namespace sextant
