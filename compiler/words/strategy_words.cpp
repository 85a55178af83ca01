// What a strategy says about words and rates: which tensors are split before inference starts, and
// what is boxed at other times than it changes.
#include "compiler/strategy/pins.h"
#include "compiler/words/context_words.h"
#include "compiler/words/operator_rows.h"
#include "compiler/words/stage.h"
#include "compiler/words/state_words.h"
#include "core/base/check.h"
#include "core/base/divisors.h"
#include "core/base/nearest.h"
#include "core/graphs/operator.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

namespace sextant {
namespace {

bool updates_state(const LogicalOp& op, const OperatorDef& def) {
  return !op.inputs.empty() && !def.state_outputs.empty();
}

// Words of one parameter: as it lives, and as forward and backward read it.
struct ParameterWords {
  TensorId parameter;
  NdSbp state, read;
};

// Of a matrix whose rows and columns change places.
NdSbp in_columns(NdSbp words) {
  for (Sbp& word : words)
    if (word.is_split()) word.dim = 1 - word.dim;
  return words;
}

std::vector<std::int64_t> axis_extents(const Strategy& strategy) {
  std::vector<std::int64_t> extents;
  for (const MeshAxis& axis : mesh_axes(strategy)) extents.push_back(axis.extent);
  return extents;
}

// Axes whose members have samples of their own.
std::vector<std::size_t> replica_axes(const StrategyAxes& axes) {
  std::vector<std::size_t> replicas = {axes.dp};
  if (axes.ep) replicas.push_back(*axes.ep);
  return replicas;
}

// Each replica has samples of its own; rings split the sequence.
NdSbp words_of_input(const LogicalGraph& training, const Strategy& strategy,
                     const StrategyAxes& axes, const LogicalOp& op) {
  const Shape& shape = training.tensor(op.outputs[0]).type.shape;
  const std::vector<std::int64_t> extents = axis_extents(strategy);
  NdSbp words(axes.count, Sbp::broadcast());
  if (shape.rank() > 0) {
    const std::int64_t batch = shape[0];
    if (batch % strategy.dp != 0)
      fail(ErrorCode::kInfeasible,
           "input '{}' has a batch of {} samples, which dp={} does not divide; dp that would "
           "do: {}",
           op.name, batch, strategy.dp, comma_list(divisors_of(batch)));
    require(batch == strategy.dp * strategy.micro_batch, ErrorCode::kInfeasible,
            "input '{}' has a batch of {} samples, but dp={} x micro_batch={} = {}: the graph "
            "was built for another strategy",
            op.name, batch, strategy.dp, strategy.micro_batch, strategy.dp * strategy.micro_batch);
    for (const std::size_t axis : replica_axes(axes))
      if (extents[axis] > 1) words[axis] = Sbp::split(0);
  }
  if (const auto dim = context_dim(training, strategy, shape)) words[*axes.cp] = Sbp::split(*dim);
  return words;
}

bool is_updated(const LogicalGraph& training, TensorId parameter) {
  const auto uses = training.uses(parameter);
  return std::any_of(uses.begin(), uses.end(), [&](const LogicalGraph::Use& use) {
    const LogicalOp& op = training.op(use.op);
    return updates_state(op, training.registry().get(op.kind));
  });
}

// Attention splits query heads alone as well, so several devices may hold one key/value head: its
// gradient is partial then. Keys and values are gathered where they become heads, by the devices
// that share one where that is an axis.
void share_key_heads(const LogicalGraph& training, const StrategyAxes& axes,
                     const LogicalOp& attention, WordConstraints& constraints) {
  for (const std::size_t operand : {1U, 2U}) {
    TensorId heads = attention.inputs[operand];
    const Shape& shape = training.tensor(heads).type.shape;
    while (training.tensor(heads).type.shape == shape) {
      const OpId maker = training.tensor(heads).producer;
      const LogicalOp& op = training.op(maker);
      if (op.role == OperatorRole::kView && axes.kv)
        constraints.inputs_on_axis[{maker, 0}] = {axes.tp, Sbp::broadcast()};
      else if (op.role == OperatorRole::kView)
        constraints.shared_groups.insert(maker);
      if (op.role == OperatorRole::kView || op.inputs.empty()) break;
      heads = op.inputs[0];
    }
  }
}

class WordChooser {
 public:
  WordChooser(const LogicalGraph& training, const Strategy& strategy)
      : training_(training),
        strategy_(strategy),
        axes_(axes_of(strategy)),
        extents_(axis_extents(strategy)),
        rates_(rates_of(training)) {
    chosen_.constraints.whole_groups = true;
  }

  StrategyWords run() {
    for (std::size_t index = 0; index < training_.ops().size(); ++index) {
      const LogicalOp& op = training_.ops()[index];
      if (op.recompute_of) {  // has the words of the original
        box_again(op);
        continue;
      }
      const OperatorDef& def = training_.registry().get(op.kind);
      if (op.inputs.empty() && def.on_host)
        chosen_.constraints.tensors[op.outputs[0]] =
            words_of_input(training_, strategy_, axes_, op);
      else if (op.inputs.empty() && !def.state_outputs.empty())
        split_parameter(op);
      else
        read_parameters(OpId(index), op, def);
      if (op.role == OperatorRole::kAttention ||
          (axes_.kv && op.role == OperatorRole::kChunkedAttention))
        share_key_heads(training_, axes_, op, chosen_.constraints);
      if (op.role == OperatorRole::kExpertCombine && axes_.ep) return_tokens(OpId(index));
    }
    require(!axes_.ep || has_experts_, ErrorCode::kInfeasible,
            "ep={}: no parameter of the model has a dim of experts to spread", strategy_.ep);
    add_context_words(training_, strategy_, chosen_.constraints);
    apply_pins(training_, strategy_, chosen_.constraints);
    return std::move(chosen_);
  }

 private:
  // What a layer keeps for backward is its input, not what forward boxed it to.
  void box_again(const LogicalOp& op) {
    for (const TensorId input : op.inputs) {
      const OpId maker = training_.tensor(input).producer;
      if (training_.op(maker).layer != op.layer && rates_[maker.index()] == Rate::kPerMicroBatch)
        chosen_.times.per_use.insert(input);
    }
  }
  bool is_used(std::size_t axis) const { return extents_[axis] > 1; }

  void split_parameter(const LogicalOp& op) {
    const TensorId parameter = op.outputs[0];
    const Shape& shape = training_.tensor(parameter).type.shape;
    ParameterWords words{.parameter = parameter, .state = {}, .read = {}};
    words.read.assign(axes_.count, Sbp::broadcast());
    if (op.parameter) {
      for (const std::size_t axis : axes_.tensor_parallel())
        split_read(op, op.parameter->tensor_parallel_dim, axis, words.read);
      has_experts_ = has_experts_ || op.parameter->expert_parallel_dim;
      if (axes_.ep) split_read(op, op.parameter->expert_parallel_dim, *axes_.ep, words.read);
    }
    if (const NdSbp* pinned = pinned_words(strategy_, training_.tensor(parameter).name))
      words.read = *pinned;
    words.state = words.read;
    if (strategy_.zero >= 1 && shape.elements() >= kSmallestSharded &&
        is_updated(training_, parameter))
      shard(shape, words.state);
    chosen_.constraints.tensors[parameter] = words.state;
    parameters_[parameter] = std::move(words);
  }

  void split_read(const LogicalOp& op, std::optional<std::size_t> dim, std::size_t axis,
                  NdSbp& words) const {
    if (!dim) return;
    const Shape& shape = training_.tensor(op.outputs[0]).type.shape;
    if (*dim >= shape.rank())
      fail(ErrorCode::kInfeasible, "parameter '{}' of shape {} has no dim {} for {}", op.name,
           to_string(shape), *dim, mesh_axes(strategy_)[axis].name);
    if (is_used(axis)) words[axis] = Sbp::split(*dim);
  }

  void shard(const Shape& shape, NdSbp& words) const {
    std::vector<std::size_t> axes;
    std::int64_t parts = 1;
    for (const std::size_t axis : replica_axes(axes_))
      if (is_used(axis) && words[axis].is_broadcast())
        axes.push_back(axis), parts *= extents_[axis];
    split_state(shape, axes, parts, words);
  }

  // Parameters, and what element-wise operators make of them once per step (casts), are read in
  // the strategy's words; the element-wise operators themselves work on the shards.
  void read_parameters(OpId id, const LogicalOp& op, const OperatorDef& def) {
    for (std::size_t i = 0; i < op.inputs.size(); ++i) {
      const auto known = parameters_.find(op.inputs[i]);
      if (known == parameters_.end()) continue;
      const ParameterWords words = known->second;
      if (updates_state(op, def) || op.phase == Phase::kOptimizer) {
        pin_update(id, op, i, words);
        return;
      }
      const bool once = rates_[id.index()] == Rate::kPerStep;
      if (once && (op.role == OperatorRole::kQuantizeScale || op.role == OperatorRole::kQuantize)) {
        give({id, i}, words.state, words);
        pass_quantized(op, words);
        continue;
      }
      if (once && is_elementwise(training_, op)) {
        parameters_[op.outputs[0]] = words;
        continue;
      }
      give({id, i}, read_words(op, i, words), words);
      if (!once && strategy_.zero >= 3 && words.state != words.read)
        chosen_.times.per_use.insert(op.inputs[i]);
    }
  }

  // Weights in 8 bits are made of shards as well, rows and columns of a matrix change places in a
  // copy.
  void pass_quantized(const LogicalOp& op, const ParameterWords& words) {
    if (op.role != OperatorRole::kQuantize) return;
    const bool begins_with_rows =
        op.outputs.size() == 2 || op.attributes.text("layout") == std::string("rows");
    for (std::size_t i = 0; i < op.outputs.size(); ++i) {
      ParameterWords made = words;
      if (i == 1 || !begins_with_rows)
        made.state = in_columns(words.state), made.read = in_columns(words.read);
      parameters_[op.outputs[i]] = std::move(made);
    }
  }

  NdSbp read_words(const LogicalOp& op, std::size_t input, const ParameterWords& parameter) const {
    NdSbp words = parameter.read;
    const auto dim = context_read_dim(training_, strategy_, op, input);
    if (dim && words[*axes_.cp].is_broadcast()) words[*axes_.cp] = Sbp::split(*dim);
    return words;
  }

  // The parameter and its gradient meet in the words of the state, and so does whoever else reads
  // that gradient at the end of the step: its norm is that of the shards, each with one owner.
  void pin_update(OpId id, const LogicalOp& op, std::size_t parameter,
                  const ParameterWords& words) {
    for (const std::size_t i : operands_split_with(training_, op, parameter)) {
      give({id, i}, words.state, words);
      if (i == parameter) continue;
      pin_late_readers(op.inputs[i], words);
      if (words.state != words.read && strategy_.zero >= 2) sum_gradient(op.inputs[i], words);
    }
  }

  // What the experts made goes back to where its tokens are, groups in dim 1. A combine beside the
  // experts would do without that, and owe a reduction of ep / choices times the bytes.
  void return_tokens(OpId combine) {
    chosen_.constraints.inputs_on_axis[{combine, 0}] = {*axes_.ep, Sbp::split(1)};
  }

  void pin_late_readers(TensorId gradient, const ParameterWords& words) {
    for (const LogicalGraph::Use& use : training_.uses(gradient))
      if (training_.op(use.op).phase == Phase::kOptimizer)
        give({use.op, use.input}, words.state, words);
  }

  void give(const OpInput& input, NdSbp words, const ParameterWords& because_of) {
    chosen_.constraints.inputs[input] = std::move(words);
    chosen_.parameter_of[input] = because_of.parameter;
  }

  // Whatever makes an updater's gradient of others once per step works on the shards; what they are
  // made of is summed in the words of the shards.
  void sum_gradient(TensorId gradient, const ParameterWords& words) {
    const OpId maker = training_.tensor(gradient).producer;
    const LogicalOp& op = training_.op(maker);
    if (rates_[maker.index()] == Rate::kPerMicroBatch) chosen_.times.sum_in[gradient] = words.state;
    if (rates_[maker.index()] == Rate::kPerMicroBatch || !works_on_shards(training_, op)) return;
    for (std::size_t i = 0; i < op.inputs.size(); ++i) {
      if (training_.tensor(op.inputs[i]).type.shape != training_.tensor(gradient).type.shape)
        continue;
      give({maker, i}, words.state, words);
      sum_gradient(op.inputs[i], words);
    }
  }

  const LogicalGraph& training_;
  const Strategy& strategy_;
  const StrategyAxes axes_;
  const std::vector<std::int64_t> extents_;
  const std::vector<Rate> rates_;
  std::map<TensorId, ParameterWords> parameters_;
  bool has_experts_ = false;
  StrategyWords chosen_;
};

}  // namespace

StrategyWords strategy_words(const LogicalGraph& training, const Strategy& strategy) {
  return WordChooser(training, strategy).run();
}

}  // namespace sextant
