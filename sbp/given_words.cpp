// Constraints, checked against the graph and packed.
#include "sbp/given_words.h"

#include "core/base/check.h"

namespace sextant {

std::size_t mesh_of(const LogicalOp& op, const std::vector<Placement>& stages,
                    const std::vector<int>& stage_of_layer) {
  require(static_cast<std::size_t>(op.layer) < stage_of_layer.size(), ErrorCode::kUsage,
          "operator '{}' is in layer {}, but {} layers have a stage", op.name, op.layer,
          stage_of_layer.size());
  const int stage = stage_of_layer[static_cast<std::size_t>(op.layer)];
  require(stage >= 0 && static_cast<std::size_t>(stage) < stages.size(), ErrorCode::kUsage,
          "layer {} is on stage {} of {}", op.layer, stage, stages.size());
  return static_cast<std::size_t>(stage);
}

bool is_same_word(const MeshState& a, const MeshState& b, std::size_t axis) {
  if (a.is_split(axis)) return b.is_split(axis) && a.dim(axis) == b.dim(axis);
  if (a.is_partial(axis)) return b.is_partial(axis) && a.reduction(axis) == b.reduction(axis);
  return b.is_broadcast(axis);
}

GivenWords::GivenWords(const LogicalGraph& graph, const std::vector<Placement>& stages,
                       const std::vector<int>& stage_of_layer, const WordConstraints& constraints)
    : graph_(graph), stages_(stages), stage_of_layer_(stage_of_layer) {
  std::size_t num_inputs = 0;
  for (const LogicalOp& op : graph.ops()) {
    first_input_.push_back(num_inputs);
    num_inputs += op.inputs.size();
  }
  inputs_.resize(num_inputs);
  axes_.resize(num_inputs);
  tensors_.resize(graph.tensors().size());
  for (const auto& [id, words] : constraints.tensors) note_tensor(id, words);
  for (const auto& [input, words] : constraints.inputs) note_input(input, words);
  for (const auto& [input, given] : constraints.inputs_on_axis) note_axis(input, given);
}

void GivenWords::note_tensor(TensorId id, const NdSbp& words) {
  if (!id.is_valid() || id.index() >= graph_.tensors().size())
    fail(ErrorCode::kUsage, "words {} for tensor {} of {}", to_string(words), id.value,
         graph_.tensors().size());
  tensors_[id.index()] = pinned(words, id, graph_.op(graph_.tensor(id).producer));
}

void GivenWords::note_input(const OpInput& input, const NdSbp& words) {
  require_exists(input, words);
  const LogicalOp& op = graph_.op(input.op);
  inputs_[place_of(input)] = pinned(words, op.inputs[input.input], op);
}

void GivenWords::note_axis(const OpInput& input, const WordConstraints::OnAxis& given) {
  require_exists(input, {given.word});
  const LogicalOp& op = graph_.op(input.op);
  const std::size_t axes = stages_[mesh_of(op, stages_, stage_of_layer_)].axes.size();
  if (given.axis >= axes)
    fail(ErrorCode::kUsage, "word {} on axis {} of {} for operator '{}'", to_string(given.word),
         given.axis, axes, op.name);
  NdSbp words(axes, Sbp::broadcast());
  words[given.axis] = given.word;
  axes_[place_of(input)] = OneAxis{given.axis, pinned(words, op.inputs[input.input], op)};
}

void GivenWords::require_exists(const OpInput& input, const NdSbp& words) const {
  const bool exists = input.op.is_valid() && input.op.index() < graph_.ops().size() &&
                      input.input < graph_.op(input.op).inputs.size();
  if (!exists)
    fail(ErrorCode::kUsage, "words {} for input {} of operator {}", to_string(words), input.input,
         input.op.value);
}

// Words that do not fit are refused with the operator they were given for.
MeshState GivenWords::pinned(const NdSbp& words, TensorId id, const LogicalOp& op) const {
  const Placement& stage = stages_[mesh_of(op, stages_, stage_of_layer_)];
  try {
    return MeshState(words, stage.hierarchy(), graph_.tensor(id).type.shape);
  } catch (const Error& error) {
    fail(error.code(), "operator '{}' ({}) on {}, words {} for '{}' {}: {}", op.name, op.kind,
         to_string(stage), to_string(words), graph_.tensor(id).name,
         to_string(graph_.tensor(id).type.shape), error.what());
  }
}

bool GivenWords::says(const OpInput& input, std::size_t axis) const {
  const std::optional<OneAxis>& one = axes_[place_of(input)];
  return this->input(input).has_value() || (one && one->axis == axis);
}

bool GivenWords::allows(const OpInput& input, const MeshState& state) const {
  const std::optional<MeshState>& all = this->input(input);
  const std::optional<OneAxis>& one = axes_[place_of(input)];
  return (!all || state == *all) && (!one || is_same_word(state, one->state, one->axis));
}

void GivenWords::describe(const OpInput& input, Key& key) const {
  const std::optional<MeshState>& all = this->input(input);
  const std::optional<OneAxis>& one = axes_[place_of(input)];
  key.push_back((all ? 1U : 0U) + (one ? 2U : 0U));
  if (all) key.push_back(all->code());
  if (!one) return;
  key.push_back(one->axis);
  key.push_back(one->state.code());
}

}  // namespace sextant
