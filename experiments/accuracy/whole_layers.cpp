// A copy of the graph with more repetitions, each in front of the first gradient of its layer.
#include "experiments/accuracy/whole_layers.h"

#include "compiler/training/autodiff.h"
#include "compiler/words/stage.h"
#include "core/graphs/graph_rewriter.h"
#include "core/graphs/operator.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

namespace sextant {
namespace {

class Repeater {
 public:
  explicit Repeater(const LogicalGraph& training)
      : training_(training),
        rates_(rates_of(training)),
        is_repeated_(training.ops().size(), false),
        rewriter_(training),
        repetitions_(training.tensors().size()) {
    for (const LogicalOp& op : training.ops())
      if (op.recompute_of) is_repeated_[op.recompute_of->index()] = true;
  }

  LogicalGraph run() {
    std::vector<bool> is_done(static_cast<std::size_t>(training_.num_layers()), false);
    for (std::size_t index = 0; index < training_.ops().size(); ++index) {
      const LogicalOp& op = training_.op(OpId(index));
      const bool is_gradient = op.phase == Phase::kInputGrad || op.phase == Phase::kWeightGrad;
      const auto layer = static_cast<std::size_t>(op.layer);
      if (is_gradient && !is_done[layer]) {
        is_done[layer] = true;
        if (has_repetitions(op.layer)) repeat_rest(op.layer);
      }
      copy(OpId(index));
    }
    return std::move(rewriter_).finish();
  }

 private:
  bool has_repetitions(int layer) const {
    const auto ops = training_.ops();
    return std::any_of(ops.begin(), ops.end(), [layer](const LogicalOp& op) {
      return op.layer == layer && op.phase == Phase::kRecompute;
    });
  }

  bool is_left_out(OpId id) const {
    const LogicalOp& op = training_.op(id);
    const OperatorDef& def = training_.registry().get(op.kind);
    return op.phase == Phase::kForward && rates_[id.index()] == Rate::kPerMicroBatch &&
           !is_repeated_[id.index()] && !op.inputs.empty() && def.state_outputs.empty() &&
           !def.on_host;
  }

  void repeat_rest(int layer) {
    for (std::size_t index = 0; index < training_.ops().size(); ++index) {
      const OpId id(index);
      if (training_.op(id).layer != layer || !is_left_out(id)) continue;
      LogicalOp op = training_.op(id);
      for (TensorId& input : op.inputs) {
        const std::optional<TensorId>& repetition = repetitions_[input.index()];
        input = repetition ? *repetition : rewriter_.copied(input);
      }
      op.name = unused_name(graph(), op.name + ".recompute");
      op.phase = Phase::kRecompute;
      op.recompute_of = rewriter_.copied(id);
      note_repetition(id, graph().add(std::move(op)));
    }
  }

  LogicalGraph& graph() { return rewriter_.graph(); }

  void copy(OpId id) {
    const OpId added = rewriter_.copy(id);
    if (const auto repeats = training_.op(id).recompute_of) note_repetition(*repeats, added);
  }

  void note_repetition(OpId of, OpId repetition) {
    for (std::size_t i = 0; i < training_.op(of).outputs.size(); ++i)
      repetitions_[training_.op(of).outputs[i].index()] = graph().output(repetition, i);
  }

  const LogicalGraph& training_;
  std::vector<Rate> rates_;
  std::vector<bool> is_repeated_;  // by operator
  GraphRewriter rewriter_;
  std::vector<std::optional<TensorId>> repetitions_;  // by tensor of the old graph
};

}  // namespace

Strategy with_blocks_recomputed(Strategy strategy, std::int64_t layers) {
  if (strategy.recompute.kind != Recompute::Kind::kFull) return strategy;
  std::map<int, int> in_chunk;
  const std::vector<LayerPlace> places = place_layers(static_cast<int>(layers) + 2, strategy);
  for (std::size_t layer = 1; layer + 1 < places.size(); ++layer)
    ++in_chunk[places[layer].virtual_stage];
  int most = 1;
  for (const auto& [chunk, count] : in_chunk) most = std::max(most, count);
  strategy.recompute = {.kind = Recompute::Kind::kLayers, .layers = most};
  return strategy;
}

LogicalGraph with_whole_layers_repeated(const LogicalGraph& training) {
  return Repeater(training).run();
}

}  // namespace sextant
