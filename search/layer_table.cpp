// One small graph is staged per kind of layer; the rest is looked up.
#include "search/layer_table.h"

#include "compiler/stage.h"
#include "search/node_facts.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace sextant {
namespace {

constexpr int kBlocks = 3, kMiddle = 2;

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

std::vector<OpForm> form_of(const LogicalGraph& graph, int layer) {
  std::vector<OpForm> form;
  std::map<std::size_t, std::size_t> numbers;  // by operator
  for (std::size_t index = 0; index < graph.ops().size(); ++index) {
    const LogicalOp& op = graph.op(OpId(index));
    if (op.layer != layer || op.phase == Phase::kOptimizer) continue;
    numbers.emplace(index, form.size());
    OpForm own;
    own.kind = op.kind;
    own.phase = op.phase;
    if (op.kind != "parameter") own.attributes = op.attributes;
    if (op.parameter) {
      own.split_dim = op.parameter->tensor_parallel_dim;
      own.expert_dim = op.parameter->expert_parallel_dim;
    }
    for (const TensorId output : op.outputs) own.outputs.push_back(graph.tensor(output).type);
    for (const TensorId input : op.inputs) {
      const LogicalTensor& tensor = graph.tensor(input);
      const LogicalOp& producer = graph.op(tensor.producer);
      const auto place = std::find(producer.outputs.begin(), producer.outputs.end(), input);
      const auto number = numbers.find(tensor.producer.index());
      own.inputs.push_back(
          {direction(producer.layer, layer), number == numbers.end() ? 0 : number->second,
           static_cast<std::size_t>(place - producer.outputs.begin()), tensor.type});
    }
    form.push_back(std::move(own));
  }
  return form;
}

// A run of so many ranks lies among nodes and tiers like every other run of that length.
bool lies_alike(const Cluster& cluster, std::int64_t ranks) {
  const auto fits = [&](std::int64_t size) { return ranks % size == 0 || size % ranks == 0; };
  return cluster.other_devices.empty() && cluster.outer_tiers.empty() &&
         fits(cluster.devices_per_node);
}

// Of the strategy, what its layers depend on: two replicas stand for all.
Strategy layer_strategy(const Strategy& strategy) {
  Strategy own;
  const std::int64_t replicas = strategy.dp / strategy.ep;
  own.dp = strategy.ep * std::min<std::int64_t>(replicas, 2);
  own.tp = strategy.tp;
  own.cp = strategy.cp;
  own.context = strategy.context;
  own.ep = strategy.ep;
  own.micro_batch = strategy.micro_batch;
  own.sequence_parallel = strategy.sequence_parallel;
  own.recompute = strategy.recompute;
  own.pieces = strategy.pieces;
  own.key_head_parts = strategy.key_head_parts;
  return own;
}

}  // namespace

LayerTable::LayerTable(const SearchProblem& problem, const SearchModels& models,
                       const Cluster& cluster, const LogicalGraph& training, std::int64_t samples)
    : problem_(problem),
      models_(models),
      cluster_(cluster),
      training_(training),
      samples_(samples),
      stands_for_(static_cast<std::size_t>(training.num_layers()), false) {}

bool LayerTable::is_of_use() {
  if (!is_of_use_) {
    compare_layers();
    is_of_use_ = std::find(stands_for_.begin(), stands_for_.end(), true) != stands_for_.end();
  }
  return *is_of_use_;
}

void LayerTable::compare_layers() {
  const int layers = training_.num_layers();
  if (!problem_.shorter_graph || !problem_.pins.empty() || layers <= kBlocks + 2) return;
  Strategy plain;
  plain.micro_batch = samples_;
  const LogicalGraph shorter = problem_.shorter_graph(plain, kBlocks);
  if (shorter.num_layers() != kBlocks + 2) return;
  const std::vector<OpForm> middle = form_of(shorter, kMiddle);
  for (int layer = 1; layer + 1 < layers; ++layer)
    stands_for_[static_cast<std::size_t>(layer)] = form_of(training_, layer) == middle;
}

bool LayerTable::applies_to(const Strategy& strategy) const {
  const bool communicates = strategy.tp > 1 || strategy.cp > 1 || strategy.ep > 1;
  return communicates && strategy.order == kUsualOrder && strategy.pins.empty() &&
         lies_alike(cluster_, layer_strategy(strategy).ranks());
}

const LayerCells* LayerTable::cells(const Strategy& strategy, const StopPoll& stop) {
  if (!applies_to(strategy) || !is_of_use()) return nullptr;
  const Strategy own = layer_strategy(strategy);
  const std::string key = to_string(own);
  auto known = known_.find(key);
  if (known == known_.end()) known = known_.emplace(key, staged_cells(own, stop)).first;
  return known->second ? &*known->second : nullptr;
}

std::optional<LayerCells> LayerTable::staged_cells(const Strategy& strategy,
                                                   const StopPoll& stop) const {
  constexpr std::int64_t kMicroBatches = 2;
  try {
    const LogicalGraph graph = problem_.shorter_graph(strategy, kBlocks);
    const StagedGraph staged =
        models_.boxing ? make_staged_graph(graph, strategy, kMicroBatches, *models_.boxing, stop)
                       : make_staged_graph(graph, strategy, kMicroBatches, models_.network.get(),
                                           models_.cost.get(), stop);
    return layer_cells(staged, kMiddle, *models_.cost, *models_.network, ExpandOptions());
  } catch (const Error& error) {
    if (!is_refusal(error)) throw;
    return std::nullopt;
  }
}

}  // namespace sextant
