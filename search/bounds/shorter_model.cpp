// Layers are compared operator by operator.
#include "search/bounds/shorter_model.h"

#include "core/base/at.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace sextant {
namespace {

// Where an input comes from, as seen from a layer: itself, a neighbour, or further away.
int direction(int from, int to) { return std::clamp(from - to, -2, 2); }

// An operator of a layer as it stands to the others, without its name. Updates are once per step,
// so they are in no cell.
struct InputForm {
  int direction = 0;
  std::size_t op = 0, output = 0;  // op: in its layer; of other layers none
  TensorType type;
  bool operator==(const InputForm&) const = default;
};
struct OpForm {
  std::string kind;
  Attributes attributes;  // not of parameters: how they begin may depend on the number of layers
  Phase phase = Phase::kForward;
  std::vector<TensorType> outputs;
  std::vector<InputForm> inputs;
  std::optional<std::size_t> split_dim, expert_dim;
  bool operator==(const OpForm&) const = default;
};

OpForm form_of(const LogicalGraph& graph, const LogicalOp& op,
               const std::vector<std::size_t>& number_in_layer) {
  OpForm own;
  own.kind = op.kind;
  own.phase = op.phase;
  if (op.role != OperatorRole::kParameter) own.attributes = op.attributes;
  if (op.parameter) {
    own.split_dim = op.parameter->tensor_parallel_dim;
    own.expert_dim = op.parameter->expert_parallel_dim;
  }
  for (const TensorId output : op.outputs) own.outputs.push_back(graph.tensor(output).type);
  for (const TensorId input : op.inputs) {
    const LogicalTensor& tensor = graph.tensor(input);
    const LogicalOp& producer = graph.op(tensor.producer);
    const auto place = std::find(producer.outputs.begin(), producer.outputs.end(), input);
    own.inputs.push_back({direction(producer.layer, op.layer),
                          producer.layer == op.layer ? number_in_layer[tensor.producer.index()] : 0,
                          static_cast<std::size_t>(place - producer.outputs.begin()), tensor.type});
  }
  return own;
}

std::vector<std::vector<OpForm>> forms_of_layers(const LogicalGraph& graph) {
  std::vector<std::vector<OpForm>> layers(at(graph.num_layers()));
  std::vector<std::size_t> number_in_layer(graph.ops().size(), 0);
  for (std::size_t index = 0; index < graph.ops().size(); ++index) {
    const LogicalOp& op = graph.op(OpId(index));
    if (op.phase == Phase::kOptimizer) continue;
    std::vector<OpForm>& layer = layers[at(op.layer)];
    number_in_layer[index] = layer.size();
    layer.push_back(form_of(graph, op, number_in_layer));
  }
  return layers;
}

}  // namespace

const std::vector<int>& ShorterModel::like() {
  if (!like_) like_ = compared();
  return *like_;
}

const LogicalGraph& ShorterModel::graph(const Strategy& strategy) {
  return graphs_.of(strategy, [&] { return problem_.shorter_graph(strategy, kBlocks); });
}

bool ShorterModel::has_middle() {
  return std::find(like().begin(), like().end(), kMiddle) != like().end();
}

std::vector<int> ShorterModel::compared() {
  std::vector<int> like(at(training_.num_layers()), -1);
  if (!problem_.shorter_graph || !problem_.pins.empty() || like.size() <= at(kLayers)) return like;
  Strategy plain;
  plain.micro_batch = samples_;
  const LogicalGraph& shorter = graph(plain);
  if (shorter.num_layers() != kLayers) return like;
  const auto forms = forms_of_layers(shorter), whole = forms_of_layers(training_);
  const std::size_t last = whole.size() - 1;
  const auto compare = [&](std::size_t layer, int with) {
    if (whole[layer] == forms[at(with)]) like[layer] = with;
  };
  compare(0, 0);
  compare(last, kLayers - 1);
  for (std::size_t layer = 1; layer < last; ++layer) compare(layer, kMiddle);
  return like;
}

// The first and the last block have other neighbours than the middle one, and the same operators.
std::optional<std::vector<int>> ShorterModel::like_layers() {
  std::vector<int> layers = like();
  if (std::find(layers.begin(), layers.end(), -1) != layers.end()) return std::nullopt;
  layers[1] = 1;
  layers[layers.size() - 2] = kBlocks;
  return layers;
}

}  // namespace sextant
