// One case per architecture; decoders keep their own ways (models/load.cpp, models/counts.cpp).
#include "models/any_model.h"

#include "core/base/check.h"
#include "core/base/nearest.h"
#include "core/graphs/operator.h"
#include "core/operators/movement/sources.h"
#include "core/text/json_reader.h"
#include "models/other_architectures.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <filesystem>

namespace sextant {
namespace {

constexpr Bytes kMaxGraphSize{std::int64_t{256} << 20};

const ModelConfig* decoder(const AnyModel& model) { return std::get_if<ModelConfig>(&model); }
const GraphDocument* document(const AnyModel& model) { return std::get_if<GraphDocument>(&model); }

// Between gradients and parameters, and what a run reports.
constexpr std::array<std::string_view, 12> kTrainingKinds = {
    "metrics", "gradient_stats", "add_stats", "update_control", "loss_scale", "loss_scale_update",
    "sgd",     "momentum",       "adamw",     "lamb_direction", "lamb_norms", "lamb_apply"};

// The gradient of a smoothed loss is that of the mixture over all classes, whatever is picked.
bool picks_without_smoothing(const LogicalGraph& graph, const LogicalOp& op) {
  constexpr std::size_t kPicked = 3;
  return op.role == OperatorRole::kLoss && op.attributes.real_or("smoothing", 0) > 0 &&
         graph.op(graph.tensor(op.inputs.at(kPicked)).producer).role == OperatorRole::kPick;
}

// What trains adds gradients, updates and metrics; recomputation is a strategy's.
GraphDocument forward_graph_from_json(const JsonCursor& root) {
  GraphDocument document = graph_from_json(root);
  for (const LogicalOp& op : document.graph.ops()) {
    if (op.phase != Phase::kData && op.phase != Phase::kForward)
      root.refuse(
          fmt::format("operator '{}' has the phase {}: a model has data and forward work, "
                      "and what trains it is added",
                      op.name, to_string(op.phase)));
    if (std::find(kTrainingKinds.begin(), kTrainingKinds.end(), op.kind) != kTrainingKinds.end())
      root.refuse(
          fmt::format("operator '{}' is of the kind {}, which is added when the model is "
                      "trained",
                      op.name, op.kind));
    if (picks_without_smoothing(document.graph, op))
      root.refuse(
          fmt::format("operator '{}' has smoothing, but what it reads as picked is x[label] alone: "
                      "wanted (1 - smoothing) x[label] + smoothing / classes (sum of x)",
                      op.name));
  }
  return document;
}

// A file of ours that load_model does not know: a graph, or a config of another architecture.
std::optional<AnyModel> load_own_file(std::string_view model) {
  std::error_code failure;
  const std::filesystem::path path{std::string(model)};
  if (path.extension() != ".json" || !std::filesystem::is_regular_file(path, failure))
    return std::nullopt;
  const JsonDocument text = read_json_file(path.string(), kMaxGraphSize);
  const JsonCursor root = text.root();
  if (!root.is_object()) return std::nullopt;
  if (is_graph_document(root)) return forward_graph_from_json(root);
  if (importers::is_other_config(root)) return importers::other_from_json(root);
  return std::nullopt;
}

Flops product_flops(const LogicalGraph& graph) {
  Flops total = 0;
  for (const LogicalOp& op : graph.ops()) {
    if (op.role != OperatorRole::kProduct && op.role != OperatorRole::kBatchProduct &&
        op.role != OperatorRole::kConvolution && op.role != OperatorRole::kAttention)
      continue;
    std::vector<TensorType> inputs, outputs;
    for (const TensorId input : op.inputs) inputs.push_back(graph.tensor(input).type);
    for (const TensorId output : op.outputs) outputs.push_back(graph.tensor(output).type);
    total += graph.registry().get(op.kind).work(inputs, outputs, op.attributes).flops;
  }
  return total;
}

// Samples of one micro-batch of a graph in a file: dim 0 of its first input that has one.
std::int64_t samples_of(const LogicalGraph& graph) {
  for (const LogicalOp& op : graph.ops()) {
    const Shape& shape = graph.tensor(op.outputs.front()).type.shape;
    if (op.role == OperatorRole::kInput && shape.rank() > 0) return shape[0];
  }
  return 1;
}

// Of a graph in a file, the first input that a text fills.
const TensorType* token_input(const LogicalGraph& graph) {
  for (const LogicalOp& op : graph.ops()) {
    if (op.role != OperatorRole::kInput) continue;
    const TensorType& type = graph.tensor(op.outputs.front()).type;
    if (takes_token_data(op.name, type)) return &type;
  }
  return nullptr;
}

// Batch norms of one sample of one pixel have no variance, those of two do.
LogicalGraph measured_graph(const AnyModel& model) {
  return build_graph(model, 2, default_sequence(model), own_dtype(model).value_or(DType::kF32));
}

}  // namespace

std::vector<std::string> all_builtin_names() {
  std::vector<std::string> names = builtin_model_names();
  for (std::string& name : importers::other_builtin_names()) names.push_back(std::move(name));
  return names;
}

AnyModel load_any_model(std::string_view model) {
  if (auto own = load_own_file(model)) return *std::move(own);
  if (auto builtin = importers::other_builtin(model)) return *std::move(builtin);
  if (auto word = importers::other_from_one_word(model)) return *std::move(word);
  return load_model(model);
}

const std::string& name_of(const AnyModel& model) {
  return std::visit([](const auto& config) -> const std::string& { return config.name; }, model);
}

std::vector<std::string> notes_of(const AnyModel& model) {
  const ModelConfig* config = decoder(model);
  if (config == nullptr) return {"a sample counts as one token"};
  std::vector<std::string> notes = config->notes;
  for (std::string& assumption : planning_assumptions(model))
    notes.push_back(std::move(assumption));
  return notes;
}

std::vector<std::string> planning_assumptions(const AnyModel& model) {
  const ModelConfig* config = decoder(model);
  if (config == nullptr) return {};
  const std::optional<std::string> capacity = capacity_assumption(*config);
  return capacity ? std::vector<std::string>{*capacity} : std::vector<std::string>();
}

std::int64_t default_sequence(const AnyModel& model) {
  const ModelConfig* config = decoder(model);
  return config != nullptr ? config->sequence : 1;
}

SampleUnit unit_of(const AnyModel& model) {
  if (decoder(model) != nullptr) return SampleUnit::kTokens;
  if (std::holds_alternative<ConvNetConfig>(model) || std::holds_alternative<FaceNetConfig>(model))
    return SampleUnit::kImages;
  const GraphDocument* graph = document(model);
  const bool reads_tokens = graph != nullptr && token_input(graph->graph) != nullptr;
  return reads_tokens ? SampleUnit::kTokens : SampleUnit::kSamples;
}

std::int64_t units_per_sample(const AnyModel& model, std::int64_t sequence) {
  if (unit_of(model) != SampleUnit::kTokens) return 1;
  const GraphDocument* graph = document(model);
  return graph == nullptr ? sequence : token_input(graph->graph)->shape[1];
}

std::string_view to_string(SampleUnit unit) {
  switch (unit) {
    case SampleUnit::kTokens:
      return "tokens";
    case SampleUnit::kImages:
      return "images";
    case SampleUnit::kSamples:
      return "samples";
  }
  return "?";
}

void require_sequence(const AnyModel& model, std::int64_t sequence) {
  const ModelConfig* config = decoder(model);
  require(config != nullptr || sequence == 1, ErrorCode::kUsage,
          "--seq {}: the samples of {} are no sequences", sequence, name_of(model));
  require(config == nullptr || config->positions != ModelConfig::Positions::kLearned ||
              sequence <= config->sequence,
          ErrorCode::kUsage, "--seq {} is longer than the {} positions the model learned", sequence,
          default_sequence(model));
}

std::optional<DType> own_dtype(const AnyModel& model) {
  const GraphDocument* graph = document(model);
  if (graph == nullptr) return std::nullopt;
  // Parameters may be wider than the computation, what is multiplied is not.
  for (const LogicalOp& op : graph->graph.ops()) {
    const DType dtype =
        op.outputs.empty() ? DType::kI32 : graph->graph.tensor(op.outputs.front()).type.dtype;
    if (op.role != OperatorRole::kParameter && op.role != OperatorRole::kInput &&
        is_floating(dtype))
      return dtype;
  }
  return DType::kF32;
}

LogicalGraph build_graph(const AnyModel& model, std::int64_t samples, std::int64_t sequence,
                         DType dtype) {
  if (const ModelConfig* config = decoder(model))
    return build_graph(*config, samples, sequence, dtype);
  if (const GraphDocument* graph = document(model)) {
    require(graph->graph.loss_sum().has_value(), ErrorCode::kBadInput,
            "{}: the graph has no loss, so it cannot be trained", graph->name);
    require(dtype == *own_dtype(model), ErrorCode::kBadInput,
            "{}: the graph computes in {}, not {}", graph->name, to_string(*own_dtype(model)),
            to_string(dtype));
    return graph->graph;
  }
  if (const auto* conv = std::get_if<ConvNetConfig>(&model))
    return build_graph(*conv, samples, dtype);
  if (const auto* wide = std::get_if<WideDeepConfig>(&model))
    return build_graph(*wide, samples, dtype);
  if (const auto* face = std::get_if<FaceNetConfig>(&model))
    return build_graph(*face, samples, dtype);
  return build_graph(std::get<ClassHeadConfig>(model), samples, dtype);
}

bool is_trained(const LogicalGraph& forward, const LogicalOp& parameter) {
  const auto uses = forward.uses(parameter.outputs.front());
  return std::none_of(uses.begin(), uses.end(), [&](const LogicalGraph::Use& use) {
    return !forward.registry().get(forward.op(use.op).kind).state_outputs.empty();
  });
}

std::int64_t count_parameters(const LogicalGraph& forward) {
  std::int64_t count = 0;
  for (const LogicalOp& op : forward.ops())
    if (op.role == OperatorRole::kParameter && is_trained(forward, op))
      count += forward.tensor(op.outputs.front()).type.shape.elements();
  return count;
}

std::int64_t count_parameters(const AnyModel& model) {
  if (const ModelConfig* config = decoder(model)) return count_parameters(*config);
  if (const GraphDocument* graph = document(model)) return count_parameters(graph->graph);
  return count_parameters(measured_graph(model));
}

double model_flops_per_sample(const AnyModel& model, std::int64_t sequence) {
  if (const ModelConfig* config = decoder(model))
    return model_flops_per_token(*config, sequence) * static_cast<double>(sequence);
  if (const GraphDocument* graph = document(model))
    return 3 * product_flops(graph->graph) / static_cast<double>(samples_of(graph->graph));
  return 3 * product_flops(measured_graph(model)) / 2;
}

std::string to_json_text(const AnyModel& model) {
  if (const ModelConfig* config = decoder(model)) return to_json_text(*config);
  if (const GraphDocument* graph = document(model)) return to_json_text(*graph);
  return importers::other_to_json_text(model);
}

AnyModel any_model_from_json(std::string_view text, std::string_view origin) {
  const JsonDocument parsed(text, std::string(origin));
  if (is_graph_document(parsed.root())) return forward_graph_from_json(parsed.root());
  if (importers::is_other_config(parsed.root())) return importers::other_from_json(parsed.root());
  return model_config_from_json(text, origin);
}

}  // namespace sextant
