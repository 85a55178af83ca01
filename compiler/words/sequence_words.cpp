// Megatron's sequence parallelism (Korthikanti et al., arXiv 2205.05198) by what tensors are to
// tensor parallelism, not by their names: words inferred without it show which activations every
// device of a tp group would hold whole. Those live in parts of the sequence instead.
#include "compiler/words/stage.h"
#include "core/base/check.h"
#include "core/graphs/operator.h"
#include "core/operators/layers/attention.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <set>
#include <utility>
#include <vector>

namespace sextant {
namespace {

class SequenceSplitter {
 public:
  SequenceSplitter(const LogicalGraph& training, const Strategy& strategy,
                   const WordAssignment& inferred, StrategyWords& words)
      : training_(training),
        strategy_(strategy),
        inferred_(inferred),
        words_(words),
        tp_(axes_of(strategy).tensor_parallel()),
        rates_(rates_of(training)) {
    const StrategyAxes axes = axes_of(strategy);
    replica_axes_.push_back(axes.dp);
    if (axes.ep) replica_axes_.push_back(*axes.ep);
  }

  void run() {
    find_sequences();
    std::size_t split = 0;
    for (std::size_t index = 0; index < training_.ops().size(); ++index) {
      const LogicalOp& op = training_.ops()[index];
      if (rates_[index] == Rate::kPerStep) continue;
      if (op.role == OperatorRole::kQuantize) quantize_parts(OpId(index));
      for (std::size_t i = 0; i < op.outputs.size(); ++i) {
        if (op.phase == Phase::kForward) split += split_output(OpId(index), i) ? 1 : 0;
        if (op.phase == Phase::kWeightGrad) keep_split(OpId(index), i);
      }
    }
    require(split > 0, ErrorCode::kInfeasible,
            "sp=on: no activation of the model has a sequence that tp={} leaves whole",
            strategy_.tp);
  }

 private:
  // Extents of batch and sequence: those of the inputs.
  void find_sequences() {
    for (const LogicalOp& op : training_.ops()) {
      if (!op.inputs.empty() || !training_.registry().get(op.kind).on_host) continue;
      const Shape& shape = training_.tensor(op.outputs[0]).type.shape;
      if (shape.rank() > AttentionDims::kSequence)
        sequences_.insert({shape[AttentionDims::kBatch], shape[AttentionDims::kSequence]});
    }
  }

  bool split_output(OpId id, std::size_t index) {
    const TensorId tensor = training_.output(id, index);
    if (!holds_features(tensor) || words_.constraints.tensors.count(tensor) != 0) return false;
    NdSbp words = inferred_.of(id).outputs[index];
    if (!is_whole(words) || holds_samples(words)) return false;
    const std::optional<SbpSignature> row = row_with_parts(training_.op(id), index);
    if (!row) return false;
    for (const std::size_t axis : tp_) words[axis] = Sbp::split(AttentionDims::kSequence);
    words_.constraints.tensors[tensor] = std::move(words);
    words_.times.per_use.insert(tensor);
    read_parts(id, *row);
    return true;
  }

  // What lives in parts of the sequence gets 8 bits in parts, which are gathered in a byte each and
  // kept for backward as they are.
  void quantize_parts(OpId id) {
    const LogicalOp& op = training_.op(id);
    const auto split = words_.constraints.tensors.find(op.inputs[0]);
    if (split == words_.constraints.tensors.end() || words_.times.per_use.count(op.inputs[0]) == 0)
      return;
    words_.constraints.inputs[{id, 0}] = split->second;
    for (const TensorId output : op.outputs) words_.times.per_use.insert(output);
  }

  // A weight that tp splits keeps gradients that tp splits: partial ones would save a gather per
  // micro-batch and take the memory of the whole weight.
  void keep_split(OpId id, std::size_t index) {
    const NdSbp& words = inferred_.of(id).outputs[index];
    if (std::any_of(tp_.begin(), tp_.end(),
                    [&](std::size_t axis) { return words[axis].is_split(); }))
      words_.constraints.tensors.try_emplace(training_.output(id, index), words);
  }

  // What the operator reads in given words, whole over tp, it reads as the row says: the positions
  // of its part of the sequence from a table of all of them.
  void read_parts(OpId id, const SbpSignature& row) {
    for (std::size_t i = 0; i < row.inputs.size(); ++i) {
      const auto given = words_.constraints.inputs.find({id, i});
      if (given == words_.constraints.inputs.end() || !is_whole(given->second)) continue;
      for (const std::size_t axis : tp_) given->second[axis] = row.inputs[i];
    }
  }

  bool is_whole(const NdSbp& words) const {
    return std::all_of(tp_.begin(), tp_.end(),
                       [&](std::size_t axis) { return words[axis].is_broadcast(); });
  }

  // Several values for every token.
  bool holds_features(TensorId id) const {
    const LogicalTensor& tensor = training_.tensor(id);
    const Shape& shape = tensor.type.shape;
    return shape.rank() > AttentionDims::kSequence + 1 && is_floating(tensor.type.dtype) &&
           sequences_.count({shape[AttentionDims::kBatch], shape[AttentionDims::kSequence]}) != 0;
  }

  // Replicas split the dim of the sequence: it holds samples, and has the extent of a sequence by
  // chance. What experts get has dims [experts, samples x capacity, features].
  bool holds_samples(const NdSbp& words) const {
    return std::any_of(replica_axes_.begin(), replica_axes_.end(), [&](std::size_t axis) {
      return words[axis].is_split() && words[axis].dim == AttentionDims::kSequence;
    });
  }

  // The words of an operator that makes parts of the sequence, if it can.
  std::optional<SbpSignature> row_with_parts(const LogicalOp& op, std::size_t index) const {
    std::vector<TensorType> inputs, outputs;
    for (const TensorId input : op.inputs) inputs.push_back(training_.tensor(input).type);
    for (const TensorId output : op.outputs) outputs.push_back(training_.tensor(output).type);
    const auto rows = training_.registry().get(op.kind).signatures(inputs, outputs, op.attributes);
    const auto found = std::find_if(rows.begin(), rows.end(), [&](const SbpSignature& row) {
      return row.outputs[index] == Sbp::split(AttentionDims::kSequence);
    });
    if (found == rows.end()) return std::nullopt;
    return *found;
  }

  const LogicalGraph& training_;
  const Strategy& strategy_;
  const WordAssignment& inferred_;
  StrategyWords& words_;
  const std::vector<std::size_t> tp_;
  const std::vector<Rate> rates_;
  std::vector<std::size_t> replica_axes_;
  std::set<std::pair<std::int64_t, std::int64_t>> sequences_;
};

}  // namespace

void split_sequences(const LogicalGraph& training, const Strategy& strategy,
                     const WordAssignment& inferred, StrategyWords& words) {
  SequenceSplitter(training, strategy, inferred, words).run();
}

}  // namespace sextant
