// What a strategy says about words and rates: which tensors are split before inference starts.
#include "compiler/context_words.h"
#include "compiler/pins.h"
#include "compiler/stage.h"
#include "core/check.h"
#include "core/operator.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

namespace sextant {
namespace {

bool updates_state(const LogicalOp& op, const OperatorDef& def) {
  return !op.inputs.empty() && !def.state_outputs.empty();
}

std::string divisors_of(std::int64_t number) {
  std::string text;
  for (std::int64_t d = 1; d <= number; ++d)
    if (number % d == 0) text += (text.empty() ? "" : ", ") + fmt::format("{}", d);
  return text;
}

// Words of one parameter: as it lives, and as forward and backward read it.
struct ParameterWords {
  NdSbp state, read;
};

class StrategyWords {
 public:
  StrategyWords(const LogicalGraph& training, const Strategy& strategy)
      : training_(training),
        strategy_(strategy),
        axes_(axes_of(strategy)),
        rates_(rates_of(training)) {
    constraints_.whole_groups = true;
  }

  WordConstraints run() {
    for (std::size_t index = 0; index < training_.ops().size(); ++index) {
      const LogicalOp& op = training_.ops()[index];
      const OperatorDef& def = training_.registry().get(op.kind);
      if (op.inputs.empty() && def.on_host)
        split_input(op);
      else if (op.inputs.empty() && !def.state_outputs.empty())
        split_parameter(op);
      else
        read_parameters(OpId(index), op, def);
    }
    add_context_words(training_, strategy_, constraints_);
    apply_pins(training_, strategy_, constraints_);
    return std::move(constraints_);
  }

 private:
  bool splits_dp() const { return strategy_.dp > 1; }
  bool splits_tp() const { return strategy_.tp > 1; }

  void split_input(const LogicalOp& op) {
    const Shape& shape = training_.tensor(op.outputs[0]).type.shape;
    NdSbp words(axes_.count, Sbp::broadcast());
    if (shape.rank() > 0) {
      const std::int64_t batch = shape[0];
      require(batch % strategy_.dp == 0, ErrorCode::kInfeasible,
              "input '{}' has a batch of {} samples, which dp={} does not divide; dp that would "
              "do: {}",
              op.name, batch, strategy_.dp, divisors_of(batch));
      require(batch == strategy_.dp * strategy_.micro_batch, ErrorCode::kInfeasible,
              "input '{}' has a batch of {} samples, but dp={} x micro_batch={} = {}: the graph "
              "was built for another strategy",
              op.name, batch, strategy_.dp, strategy_.micro_batch,
              strategy_.dp * strategy_.micro_batch);
      if (splits_dp()) words[axes_.dp] = Sbp::split(0);
    }
    if (const auto dim = context_dim(training_, strategy_, shape))
      words[*axes_.cp] = Sbp::split(*dim);
    constraints_.tensors[op.outputs[0]] = std::move(words);
  }

  void split_parameter(const LogicalOp& op) {
    const TensorId parameter = op.outputs[0];
    const Shape& shape = training_.tensor(parameter).type.shape;
    ParameterWords words;
    words.read.assign(axes_.count, Sbp::broadcast());
    const auto tp_dim = op.parameter ? op.parameter->tensor_parallel_dim : std::nullopt;
    if (tp_dim) {
      require(*tp_dim < shape.rank(), ErrorCode::kInfeasible,
              "parameter '{}' of shape {} has no dim {} for tp", op.name, to_string(shape),
              *tp_dim);
      if (splits_tp()) words.read[axes_.tp] = Sbp::split(*tp_dim);
    }
    if (const NdSbp* pinned = pinned_words(strategy_, training_.tensor(parameter).name))
      words.read = *pinned;
    words.state = words.read;
    if (strategy_.zero >= 1 && splits_dp() && words.read[axes_.dp].is_broadcast() &&
        shape.elements() >= kSmallestSharded && has_updater(parameter))
      shard(shape, words.state);
    constraints_.tensors[parameter] = words.state;
    parameters_[parameter] = std::move(words);
  }

  bool has_updater(TensorId parameter) const {
    const auto uses = training_.uses(parameter);
    return std::any_of(uses.begin(), uses.end(), [&](const LogicalGraph::Use& use) {
      const LogicalOp& op = training_.op(use.op);
      return updates_state(op, training_.registry().get(op.kind));
    });
  }

  // The first dim that tp leaves alone and dp can fill; else inside the split of tp, so that the
  // gather over dp stays in the sub-groups of dp.
  void shard(const Shape& shape, NdSbp& words) const {
    for (std::size_t dim = 0; dim < shape.rank(); ++dim) {
      const bool is_taken = words[axes_.tp].is_split() && words[axes_.tp].dim == dim;
      if (is_taken || shape[dim] < strategy_.dp) continue;
      words[axes_.dp] = Sbp::split(dim);
      return;
    }
    if (words[axes_.tp].is_split()) {
      words[axes_.dp] = Sbp::split(words[axes_.tp].dim, 2);
      words[axes_.tp].nesting = 1;
      return;
    }
    const auto& extents = shape.extents();
    const auto largest = std::max_element(extents.begin(), extents.end()) - extents.begin();
    words[axes_.dp] = Sbp::split(static_cast<std::size_t>(largest));
  }

  // Parameters, and what element-wise operators make of them once per step (casts), are read in
  // the strategy's words; the element-wise operators themselves work on the shards.
  void read_parameters(OpId id, const LogicalOp& op, const OperatorDef& def) {
    for (std::size_t i = 0; i < op.inputs.size(); ++i) {
      const auto known = parameters_.find(op.inputs[i]);
      if (known == parameters_.end()) continue;
      const ParameterWords words = known->second;
      if (updates_state(op, def)) {
        pin_update(id, op, op.inputs[i], words);
        return;
      }
      if (rates_[id.index()] == Rate::kPerStep && is_elementwise(op, def))
        parameters_[op.outputs[0]] = words;
      else
        constraints_.inputs[{id, i}] = read_words(op, i, words);
    }
  }

  NdSbp read_words(const LogicalOp& op, std::size_t input, const ParameterWords& parameter) const {
    NdSbp words = parameter.read;
    const auto dim = context_read_dim(training_, strategy_, op, input);
    if (dim && words[*axes_.cp].is_broadcast()) words[*axes_.cp] = Sbp::split(*dim);
    return words;
  }

  // The parameter and its gradient meet in the words of the state.
  void pin_update(OpId id, const LogicalOp& op, TensorId parameter, const ParameterWords& words) {
    const Shape& shape = training_.tensor(parameter).type.shape;
    for (std::size_t i = 0; i < op.inputs.size(); ++i)
      if (training_.tensor(op.inputs[i]).type.shape == shape && shape.rank() > 0)
        constraints_.inputs[{id, i}] = words.state;
  }

  bool is_elementwise(const LogicalOp& op, const OperatorDef& def) const {
    if (op.inputs.size() != 1 || op.outputs.size() != 1) return false;
    const TensorType& input = training_.tensor(op.inputs[0]).type;
    const TensorType& output = training_.tensor(op.outputs[0]).type;
    if (input.shape != output.shape) return false;
    const auto rows = def.signatures({&input, 1}, {&output, 1}, op.attributes);
    for (std::size_t dim = 0; dim < input.shape.rank(); ++dim) {
      const SbpSignature row{{Sbp::split(dim)}, {Sbp::split(dim)}};
      if (std::find(rows.begin(), rows.end(), row) == rows.end()) return false;
    }
    return true;
  }

  const LogicalGraph& training_;
  const Strategy& strategy_;
  const StrategyAxes axes_;
  const std::vector<Rate> rates_;
  std::map<TensorId, ParameterWords> parameters_;
  WordConstraints constraints_;
};

}  // namespace

std::vector<Rate> rates_of(const LogicalGraph& training) {
  std::vector<Rate> rates;
  const auto per_step = [&](TensorId input) {
    return rates[training.tensor(input).producer.index()] == Rate::kPerStep;
  };
  for (const LogicalOp& op : training.ops()) {
    const OperatorDef& def = training.registry().get(op.kind);
    bool once = op.phase == Phase::kOptimizer || !def.state_outputs.empty();
    if (def.on_host)
      once = !op.inputs.empty();  // a sink reads sums of the step, a source delivers micro-batches
    else
      once = once || std::all_of(op.inputs.begin(), op.inputs.end(), per_step);
    rates.push_back(once ? Rate::kPerStep : Rate::kPerMicroBatch);
  }
  return rates;
}

WordConstraints strategy_words(const LogicalGraph& training, const Strategy& strategy) {
  return StrategyWords(training, strategy).run();
}

}  // namespace sextant
