// Labels from the rows that inference enumerates, what is given from the compiler's own words,
// asked once per label of the parameters; then tables.
#include "search/words/words_problem.h"

#include "compiler/strategy/pins.h"
#include "compiler/words/key_heads.h"
#include "core/base/at.h"
#include "core/base/check.h"
#include "core/base/error.h"
#include "core/graphs/operator.h"
#include "core/graphs/tensor_types.h"
#include "core/graphs/views.h"
#include "sbp/given_words.h"
#include "sbp/key.h"
#include "search/min_sum/lp_text.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <set>
#include <tuple>
#include <unordered_map>
#include <utility>

namespace sextant {
namespace {

std::string text_of(const OpWords& words) {
  std::string text;
  for (const NdSbp& input : words.inputs)
    text += fmt::format("{}{}", text.empty() ? "" : ", ", to_string(input));
  text += text.empty() ? "->" : " ->";
  for (std::size_t i = 0; i < words.outputs.size(); ++i)
    text += fmt::format("{} {}", i == 0 ? "" : ",", to_string(words.outputs[i]));
  return text;
}

std::string shortened(std::string text, std::size_t most) {
  if (text.size() > most) text.replace(most, std::string::npos, " ...");
  return text;
}

}  // namespace

std::optional<SettingOutsideWords> setting_outside_words(const Strategy& strategy) {
  if (strategy.cp > 1) return SettingOutsideWords{fmt::format("cp={}", strategy.cp), "cp=1"};
  if (strategy.sequence_parallel) return SettingOutsideWords{"sp=on", "sp=off"};
  if (strategy.recompute != Recompute())
    return SettingOutsideWords{fmt::format("recompute={}", to_string(strategy.recompute)),
                               "recompute=none"};
  if (strategy.pieces > 1)
    return SettingOutsideWords{fmt::format("pieces={}", strategy.pieces), "pieces=1"};
  if (strategy.zero > 1)
    return SettingOutsideWords{fmt::format("zero={}", strategy.zero), "zero=0 or zero=1"};
  return std::nullopt;
}

void require_words_settings(const Strategy& strategy) {
  if (const auto outside = setting_outside_words(strategy))
    fail(ErrorCode::kUsage,
         "words per operator with {}: they are asked for graphs that no other setting cuts or "
         "repeats, wanted {}",
         outside->setting, outside->wanted);
}

WordAssignment words_of_strategy(const LogicalGraph& training, const Strategy& strategy,
                                 BoxingPlans& by_bytes) {
  return infer_words(training, make_placements(strategy),
                     stage_of_layers(training.num_layers(), strategy),
                     strategy_words(training, strategy).constraints, by_bytes);
}

class WordsProblemBuilder {
 public:
  WordsProblemBuilder(const LogicalGraph& training, const Strategy& strategy,
                      std::int64_t micro_batches, const NetworkModel& network,
                      const CostModel& cost)
      : training_(training),
        strategy_(strategy),
        micro_batches_(micro_batches),
        cost_(cost),
        placements_(make_placements(strategy)),
        stage_of_layer_(stage_of_layers(training.num_layers(), strategy)),
        rates_(rates_of(training)),
        plans_(BoxingObjective::kTime, &network, &cost) {
    for (const Placement& stage : placements_) {
      extents_.push_back(stage.hierarchy());
      meshes_.push_back(plans_.placement(stage));
      kinds_.push_back(kinds_of(stage));
    }
    for (const LogicalTensor& tensor : training.tensors())
      types_.push_back(plans_.type(tensor.type));
  }

  WordsProblem run() {
    result_.strategy_ = strategy_;
    result_.num_axes_ = extents_.front().size();
    list_parameters();
    ask_for_given_words();
    for (std::size_t index = 0; index < training_.ops().size(); ++index) add_op(OpId(index));
    for (std::size_t index = 0; index < training_.ops().size(); ++index)
      follow_parameters(OpId(index));
    for (std::size_t index = 0; index < training_.tensors().size(); ++index)
      add_readers(TensorId(index));
    return std::move(result_);
  }

 private:
  struct Reader {
    OpId op;
    std::size_t input = 0;
  };

  // What a strategy gives, the parameters all in the label of this number or their last.
  struct Given {
    StrategyWords words;
    GivenWords by_number;
  };

  const LogicalTensor& tensor(TensorId id) const { return training_.tensor(id); }
  const OperatorDef& def_of(const LogicalOp& op) const { return training_.registry().get(op.kind); }
  std::size_t stage_of(const LogicalOp& op) const {
    return mesh_of(op, placements_, stage_of_layer_);
  }
  OpVariable& variable_of(OpId op) { return result_.operators_[op.index()]; }
  std::int64_t acts_of(Rate rate) const { return rate == Rate::kPerStep ? 1 : micro_batches_; }

  bool is_parameter(const LogicalOp& op) const {
    return op.inputs.empty() && !def_of(op).state_outputs.empty();
  }
  bool is_update_of(const LogicalOp& op, std::size_t input) const {
    return input == 0 && !def_of(op).state_outputs.empty() &&
           is_parameter(training_.op(tensor(op.inputs[0]).producer));
  }

  // One rank of each kind of device.
  std::vector<Rank> kinds_of(const Placement& stage) const {
    std::set<std::int32_t> colours;
    std::vector<Rank> kinds;
    for (const Rank rank : stage.ranks)
      if (colours.insert(cost_.colour_of(rank)).second) kinds.push_back(rank);
    return kinds;
  }

  // Words of a tensor that is nobody's result: whole or split on every axis, with something for
  // every device.
  std::vector<NdSbp> whole_or_split(const Shape& shape, std::size_t stage) const {
    std::vector<SbpSignature> rows = {{.inputs = {}, .outputs = {Sbp::broadcast()}}};
    for (std::size_t dim = 0; dim < shape.rank(); ++dim)
      rows.push_back({.inputs = {}, .outputs = {Sbp::split(dim)}});
    std::vector<NdSbp> all;
    for (OpWords& words : nd_products(rows, extents_[stage]))
      if (has_part_for_all(shape, words.outputs[0], extents_[stage]))
        all.push_back(std::move(words.outputs[0]));
    return all;
  }

  static bool has_part_for_all(const Shape& shape, const NdSbp& words,
                               const std::vector<std::int64_t>& extents) {
    std::vector<std::int64_t> parts(shape.rank(), 1);
    for (std::size_t axis = 0; axis < words.size(); ++axis)
      if (words[axis].is_split()) parts[words[axis].dim] *= extents[axis];
    for (std::size_t dim = 0; dim < shape.rank(); ++dim)
      if (parts[dim] > shape[dim]) return false;
    return true;
  }

  void list_parameters() {
    result_.operators_.resize(training_.ops().size());
    for (std::size_t index = 0; index < training_.ops().size(); ++index) {
      const LogicalOp& op = training_.ops()[index];
      require(!op.recompute_of, ErrorCode::kUsage,
              "operator '{}' repeats another: words are asked for graphs without recomputation",
              op.name);
      if (!is_parameter(op)) continue;
      const LogicalTensor& made = tensor(op.outputs[0]);
      const NdSbp* pinned = pinned_words(strategy_, made.name);
      variable_of(OpId(index)).read = pinned != nullptr
                                          ? std::vector<NdSbp>{*pinned}
                                          : whole_or_split(made.type.shape, stage_of(op));
    }
  }

  // The compiler says what follows from words of parameters: pins name them all at once, one label
  // after the other.
  void ask_for_given_words() {
    std::size_t most = 1;
    for (const OpVariable& op : result_.operators_) most = std::max(most, op.read.size());
    for (std::size_t label = 0; label < most; ++label) {
      Strategy asked = strategy_;
      for (std::size_t index = 0; index < training_.ops().size(); ++index) {
        const std::vector<NdSbp>& read = result_.operators_[index].read;
        if (read.size() < 2) continue;
        asked.pins.push_back({.name = tensor(training_.ops()[index].outputs[0]).name,
                              .input = std::nullopt,
                              .words = read[std::min(label, read.size() - 1)]});
      }
      StrategyWords words = strategy_words(training_, asked);
      GivenWords by_number(training_, placements_, stage_of_layer_, words.constraints);
      given_.push_back({std::move(words), std::move(by_number)});
    }
  }

  MeshState state_of(const NdSbp& words, std::size_t stage, TensorId id) const {
    return MeshState(words, extents_[stage], tensor(id).type.shape);
  }

  std::optional<TensorId> parameter_of(const OpInput& input) const {
    const auto known = given_[0].words.parameter_of.find(input);
    if (known == given_[0].words.parameter_of.end()) return std::nullopt;
    return known->second;
  }

  std::int32_t add_variable(std::size_t labels, std::string name) {
    result_.problem_.labels.push_back(static_cast<std::int32_t>(labels));
    result_.names_.push_back(std::move(name));
    return result_.problem_.num_variables() - 1;
  }

  void add_op(OpId id) {
    const LogicalOp& op = training_.op(id);
    OpVariable& own = variable_of(id);
    const std::size_t stage = stage_of(op);
    if (is_parameter(op)) {
      for (std::size_t label = 0; label < own.read.size(); ++label)
        own.choices.push_back(source_choice(op, given_[label].by_number, stage));
    } else {
      own.choices = products_of(id, stage);
      if (own.choices.empty())
        own.choices.push_back(source_choice(op, given_[0].by_number, stage));
      else
        std::erase_if(own.choices,
                      [&](const WordChoice& choice) { return !honours_given_words(id, choice); });
    }
    require(!own.choices.empty(), ErrorCode::kInfeasible,
            "operator '{}' ({}) on {} has no words that fit what is given", op.name, op.kind,
            to_string(placements_[stage]));
    own.variable = add_variable(own.choices.size(), fmt::format("operator {}", op.name));
    if (def_of(op).on_host || op.inputs.empty() || op.role == OperatorRole::kView) return;
    CostTable work{{own.variable}, {}};
    for (const WordChoice& choice : own.choices)
      work.costs.push_back(acts_of(rates_[id.index()]) * time_of(op, choice, stage).value);
    result_.problem_.tables.push_back(std::move(work));
  }

  WordChoice source_choice(const LogicalOp& op, const GivenWords& given, std::size_t stage) const {
    WordChoice choice;
    for (const TensorId output : op.outputs) {
      choice.outputs.push_back(given.tensor(output).value_or(MeshState()));
      choice.words.outputs.push_back(choice.outputs.back().words(extents_[stage].size()));
    }
    return choice;
  }

  std::vector<WordChoice> products_of(OpId id, std::size_t stage) const {
    const LogicalOp& op = training_.op(id);
    std::vector<WordChoice> choices;
    for (OpWords& words :
         nd_signatures(def_of(op), types_of(training_, op.inputs), types_of(training_, op.outputs),
                       op.attributes, extents_[stage])) {
      WordChoice choice;
      for (std::size_t i = 0; i < op.inputs.size(); ++i)
        choice.inputs.push_back(state_of(words.inputs[i], stage, op.inputs[i]));
      for (std::size_t i = 0; i < op.outputs.size(); ++i)
        choice.outputs.push_back(state_of(words.outputs[i], stage, op.outputs[i]));
      choice.words = std::move(words);
      choices.push_back(std::move(choice));
    }
    return choices;
  }

  // What does not follow from words of a parameter.
  bool honours_given_words(OpId id, const WordChoice& choice) const {
    const LogicalOp& op = training_.op(id);
    const GivenWords& given = given_[0].by_number;
    for (std::size_t i = 0; i < op.inputs.size(); ++i)
      if (!parameter_of({id, i}) && !given.allows({id, i}, choice.inputs[i])) return false;
    for (std::size_t i = 0; i < op.outputs.size(); ++i) {
      const std::optional<MeshState>& wanted = given.tensor(op.outputs[i]);
      if (wanted && choice.outputs[i] != *wanted) return false;
    }
    return true;
  }

  // Of one act, on the device with the largest parts, which the first one has, of the slowest kind.
  Duration time_of(const LogicalOp& op, const WordChoice& choice, std::size_t stage) const {
    const auto local = [&](const std::vector<TensorId>& tensors,
                           const std::vector<MeshState>& states) {
      std::vector<TensorType> types;
      for (std::size_t i = 0; i < tensors.size(); ++i)
        types.push_back(local_type(tensors[i], states[i], stage));
      return types;
    };
    const Work work = def_of(op).work(local(op.inputs, choice.inputs),
                                      local(op.outputs, choice.outputs), op.attributes);
    Duration slowest;
    for (const Rank rank : kinds_[stage])
      slowest = std::max(slowest, cost_.duration_on(rank, work));
    return slowest;
  }

  TensorType local_type(TensorId id, const MeshState& state, std::size_t stage) const {
    const TensorType& type = tensor(id).type;
    const std::vector<std::int64_t> first(extents_[stage].size(), 0);
    return {shard_of(type.shape, state.words(extents_[stage].size()), extents_[stage], first)
                .local_shape(),
            type.dtype};
  }

  // Readers of a parameter take it in the words that a pin of it implies for them, and so do those
  // of its gradient.
  void follow_parameters(OpId id) {
    const LogicalOp& op = training_.op(id);
    std::map<TensorId, std::vector<std::size_t>> inputs_of;
    for (std::size_t i = 0; i < op.inputs.size(); ++i)
      if (const auto parameter = parameter_of({id, i})) inputs_of[*parameter].push_back(i);
    const OpVariable& own = variable_of(id);
    for (const auto& [parameter, inputs] : inputs_of) {
      const OpVariable& source = variable_of(tensor(parameter).producer);
      CostTable table{{source.variable, own.variable}, {}};
      for (std::size_t label = 0; label < source.choices.size(); ++label)
        for (const WordChoice& choice : own.choices) {
          const bool fits = std::all_of(inputs.begin(), inputs.end(), [&](std::size_t i) {
            return given_[label].by_number.allows({id, i}, choice.inputs[i]);
          });
          table.costs.push_back(fits ? 0 : kForbiddenCost);
        }
      variable_of(tensor(parameter).producer).followed_by.push_back(result_.problem_.tables.size());
      result_.problem_.tables.push_back(std::move(table));
    }
  }

  // Readers that one boxing can serve: on one stage, and of the values or of their sum.
  void add_readers(TensorId id) {
    const Rate made = rates_[tensor(id).producer.index()];
    std::map<std::pair<std::size_t, Rate>, std::vector<Reader>> groups;
    for (const LogicalGraph::Use& use : training_.uses(id)) {
      const LogicalOp& reader = training_.op(use.op);
      if (is_update_of(reader, use.input)) continue;  // it holds the parameter, and reads nothing
      const Rate rate = made == Rate::kPerStep ? made : rates_[use.op.index()];
      groups[{stage_of(reader), rate}].push_back({use.op, use.input});
    }
    for (const auto& [where, readers] : groups) {
      if (readers.size() == 1)
        add_boxing(id, readers.front(), acts_of(where.second));
      else
        add_tensor(id, readers, where.first, acts_of(where.second));
    }
  }

  void add_boxing(TensorId id, const Reader& reader, std::int64_t acts) {
    const LogicalOp& op = training_.op(reader.op);
    add_table(variable_of(tensor(id).producer).variable, made_states(id), producer_stage(id),
              variable_of(reader.op).variable, wanted_states(reader), stage_of(op), id, acts);
  }

  void add_tensor(TensorId id, const std::vector<Reader>& readers, std::size_t stage,
                  std::int64_t acts) {
    TensorVariable shared{
        .tensor = id, .stage = static_cast<int>(stage), .choices = {}, .tables = {}};
    const auto note = [&](const std::vector<MeshState>& states) {
      for (const MeshState& state : states)
        if (std::find(shared.choices.begin(), shared.choices.end(), state) == shared.choices.end())
          shared.choices.push_back(state);
    };
    const std::vector<MeshState> made = made_states(id);
    note(made);
    for (const Reader& reader : readers) note(wanted_states(reader));
    shared.variable =
        add_variable(shared.choices.size(), fmt::format("tensor {}", tensor(id).name));
    shared.tables.push_back(result_.problem_.tables.size());
    add_table(variable_of(tensor(id).producer).variable, made, producer_stage(id), shared.variable,
              shared.choices, stage, id, acts);
    for (const Reader& reader : readers) {
      shared.tables.push_back(result_.problem_.tables.size());
      add_table(shared.variable, shared.choices, stage, variable_of(reader.op).variable,
                wanted_states(reader), stage, id, acts);
    }
    result_.tensors_.push_back(std::move(shared));
  }

  std::size_t producer_stage(TensorId id) const {
    return stage_of(training_.op(tensor(id).producer));
  }
  std::vector<MeshState> made_states(TensorId id) {
    std::vector<MeshState> states;
    for (const WordChoice& choice : variable_of(tensor(id).producer).choices)
      states.push_back(choice.outputs[tensor(id).output_index]);
    return states;
  }
  std::vector<MeshState> wanted_states(const Reader& reader) {
    std::vector<MeshState> states;
    for (const WordChoice& choice : variable_of(reader.op).choices)
      states.push_back(choice.inputs[reader.input]);
    return states;
  }

  void add_table(std::int32_t from, const std::vector<MeshState>& made, std::size_t from_stage,
                 std::int32_t to, const std::vector<MeshState>& wanted, std::size_t to_stage,
                 TensorId id, std::int64_t acts) {
    CostTable table{{from, to}, {}};
    table.costs.reserve(made.size() * wanted.size());
    for (const MeshState& before : made)
      for (const MeshState& after : wanted) {
        const std::int64_t time = boxing_time(id, from_stage, before, to_stage, after);
        table.costs.push_back(time == kForbiddenCost ? time : time * acts);
      }
    result_.problem_.tables.push_back(std::move(table));
  }

  // Forbidden where there is no way: one reduction pending cannot become another.
  std::int64_t boxing_time(TensorId id, std::size_t from_stage, const MeshState& from,
                           std::size_t to_stage, const MeshState& to) {
    if (from_stage == to_stage && from == to) return 0;
    const BoxedTypeId type = types_[id.index()];
    const Key key = {static_cast<std::uint64_t>(type.value), from_stage, from.code(), to_stage,
                     to.code()};
    const auto known = times_.find(key);
    if (known != times_.end()) return known->second;
    std::int64_t time = kForbiddenCost;
    try {
      time = plans_.plan(type, meshes_[from_stage], from, meshes_[to_stage], to).time.value;
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kInfeasible) throw;
    }
    times_.emplace(key, time);
    return time;
  }

  const LogicalGraph& training_;
  const Strategy& strategy_;
  const std::int64_t micro_batches_;
  const CostModel& cost_;
  const std::vector<Placement> placements_;  // by stage
  const std::vector<int> stage_of_layer_;
  const std::vector<Rate> rates_;
  BoxingPlans plans_;
  std::vector<std::vector<std::int64_t>> extents_;  // by stage
  std::vector<BoxedMeshId> meshes_;                 // by stage
  std::vector<std::vector<Rank>> kinds_;            // by stage
  std::vector<BoxedTypeId> types_;                  // by tensor
  std::vector<Given> given_;                        // by label of parameters
  std::unordered_map<Key, std::int64_t, KeyHash> times_;
  WordsProblem result_;
};

WordsProblem make_words_problem(const LogicalGraph& training, const Strategy& strategy,
                                std::int64_t micro_batches, const NetworkModel& network,
                                const CostModel& cost) {
  require_words_settings(strategy);
  const std::int64_t parts = with_key_heads(strategy, training).key_head_parts;
  require(
      parts == 1, ErrorCode::kInfeasible,
      "words per operator with tp={}: {} key/value heads are shared by devices, which makes two "
      "axes of tp, and pins say the same of both",
      strategy.tp, parts);
  return WordsProblemBuilder(training, strategy, micro_batches, network, cost).run();
}

const OpWords& WordsProblem::words_of(OpId op, const Labels& labels) const {
  const OpVariable& own = operators_[op.index()];
  return at(own.choices, at(labels, own.variable)).words;
}

// Tables of this problem are over two variables at most.
std::int64_t WordsProblem::cost_at(const std::vector<std::size_t>& tables,
                                   const Labels& labels) const {
  std::int64_t sum = 0;
  for (const std::size_t number : tables) {
    const CostTable& table = problem_.tables[number];
    std::size_t entry = 0;
    for (const std::int32_t variable : table.scope)
      entry = entry * at(std::int64_t{at(problem_.labels, variable)}) +
              at(std::int64_t{at(labels, variable)});
    if (table.costs[entry] == kForbiddenCost) return kForbiddenCost;
    sum += table.costs[entry];
  }
  return sum;
}

bool WordsProblem::is_followed(const OpVariable& parameter, Labels& labels,
                               std::int32_t label) const {
  at(labels, parameter.variable) = label;
  return cost_at(parameter.followed_by, labels) != kForbiddenCost;
}

std::optional<Labels> WordsProblem::labels_of(const WordAssignment& words) const {
  Labels labels(problem_.labels.size(), 0);
  const auto find_label = [&](std::size_t op, const auto& suits) {
    const OpVariable& own = operators_[op];
    for (std::int32_t label = 0; label < size_of(own.choices); ++label)
      if (at(own.choices, label).words == words.of(OpId(op)) && suits(own, label)) {
        at(labels, own.variable) = label;
        return true;
      }
    return false;
  };
  for (std::size_t op = 0; op < operators_.size(); ++op)
    if (!find_label(op, [](const OpVariable&, std::int32_t) { return true; })) return std::nullopt;
  // A sharded state may be that of several words to read it in.
  for (std::size_t op = 0; op < operators_.size(); ++op)
    if (!operators_[op].followed_by.empty() &&
        !find_label(op, [&](const OpVariable& own, std::int32_t label) {
          return is_followed(own, labels, label);
        }))
      return std::nullopt;
  for (const TensorVariable& shared : tensors_) {
    std::int64_t least = kForbiddenCost;
    std::int32_t best = 0;
    for (std::int32_t label = 0; label < size_of(shared.choices); ++label) {
      at(labels, shared.variable) = label;
      const std::int64_t cost = cost_at(shared.tables, labels);
      if (cost >= least) continue;
      least = cost;
      best = label;
    }
    at(labels, shared.variable) = best;
  }
  return labels;
}

std::string WordsProblem::lp_text() const {
  // Readers of LP files limit the length of a line.
  constexpr std::size_t kMostText = 200;
  std::string text = "\\ words per operator under " + shortened(to_string(strategy_), kMostText) +
                     "; costs in picoseconds a step\n";
  const auto add_label = [&](std::int32_t variable, std::int32_t label, const std::string& words) {
    fmt::format_to(std::back_inserter(text), "\\ x{}_{}: {}\n", variable, label,
                   shortened(words, kMostText));
  };
  for (const OpVariable& own : operators_)
    for (std::int32_t label = 0; label < size_of(own.choices); ++label)
      add_label(own.variable, label, text_of(at(own.choices, label).words));
  for (const TensorVariable& shared : tensors_)
    for (std::int32_t label = 0; label < size_of(shared.choices); ++label)
      add_label(shared.variable, label, to_string(at(shared.choices, label).words(num_axes_)));
  return text + to_lp_text(problem_, names_);
}

}  // namespace sextant
