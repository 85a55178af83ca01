// `sextant model show`.
#include "cli/verb.h"
#include "cli/verbs.h"
#include "core/base/check.h"
#include "core/text/counted_text.h"
#include "models/any_model.h"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <map>
#include <memory>

namespace sextant {
namespace {

struct ModelShowArguments {
  std::string model;
  std::optional<std::int64_t> sequence;
};

using Json = nlohmann::ordered_json;

// Parameters by layer of the graph: counted from the graph itself, so they add up to the model's.
std::map<int, std::int64_t> parameters_by_layer(const LogicalGraph& graph) {
  std::map<int, std::int64_t> counts;
  for (const LogicalOp& op : graph.ops())
    if (op.role == OperatorRole::kParameter && is_trained(graph, op))
      counts[op.layer] += graph.tensor(op.outputs.front()).type.shape.elements();
  return counts;
}

// Two samples, as a batch norm over one pixel needs; a graph in a file is shown as it is, loss or
// not.
LogicalGraph shown_graph(const AnyModel& model, std::int64_t sequence) {
  if (const auto* document = std::get_if<GraphDocument>(&model)) return document->graph;
  return build_graph(model, 2, sequence, DType::kF32);
}

void say_transformer(const ModelConfig& model, std::int64_t sequence, const Console& console) {
  console.say(fmt::format("{}, hidden {}, {} of {} ({} for keys and values), MLP {}, vocabulary {}",
                          counted(model.layers, "layer"), model.hidden,
                          counted(model.heads, "head"), model.head_size, model.kv_heads, model.ffn,
                          model.vocab));
  if (model.experts > 0)
    console.say(
        fmt::format("{}, {} per token: {} parameters for each token, {} per expert and sample",
                    counted(model.experts, "expert"), model.top_k, count_active_parameters(model),
                    counted(places_per_expert(model, sequence), "place")));
  console.say(
      fmt::format("model FLOPs per token at sequence {}: {:.4g} ({}); Megatron convention {:.4g}",
                  sequence, model_flops_per_token(model, sequence),
                  model.causal ? "causal attention" : "every token sees all",
                  megatron_flops_per_token(model, sequence)));
}

void say_layers(const std::map<int, std::int64_t>& by_layer, const Console& console) {
  TextTable table({"layers", "parameters each"});
  for (auto layer = by_layer.begin(); layer != by_layer.end();) {
    auto last = layer;
    for (auto next = std::next(last); next != by_layer.end() && next->second == layer->second;
         ++next)
      last = next;
    table.add({layer == last ? fmt::format("{}", layer->first)
                             : fmt::format("{} to {}", layer->first, last->first),
               fmt::format("{}", layer->second)});
    layer = std::next(last);
  }
  console.say(table.text());
}

void run_model_show(const ModelShowArguments& arguments, const CommonOptions&, Console& console) {
  const AnyModel model = load_any_model(arguments.model);
  const std::int64_t sequence = asked_sequence(model, arguments.sequence);
  const std::int64_t parameters = count_parameters(model);
  const double per_token = model_flops_per_sample(model, sequence) / static_cast<double>(sequence);
  const auto by_layer = parameters_by_layer(shown_graph(model, sequence));

  console.say(fmt::format("{}: {} parameters", name_of(model), parameters));
  const auto* decoder = std::get_if<ModelConfig>(&model);
  if (decoder != nullptr)
    say_transformer(*decoder, sequence, console);
  else
    console.say(fmt::format("model FLOPs per sample: {:.4g}", per_token));
  say_layers(by_layer, console);
  for (const std::string& note : notes_of(model)) console.say("note: " + note);

  Json layers = Json::array();
  for (const auto& [layer, count] : by_layer)
    layers.push_back({{"layer", layer}, {"parameters", count}});
  Json document = {
      {"name", name_of(model)}, {"parameters", parameters}, {"flops_per_token", per_token}};
  if (decoder != nullptr) {
    document["active_parameters"] = count_active_parameters(*decoder);
    document["megatron_flops_per_token"] = megatron_flops_per_token(*decoder, sequence);
  }
  document["sequence"] = sequence;
  document["layers"] = layers;
  document["notes"] = notes_of(model);
  console.document("model_show", document);
}

}  // namespace

Verb model_show_verb() {
  const auto arguments = std::make_shared<ModelShowArguments>();
  ModelShowArguments& a = *arguments;
  return {.path = "model show",
          .text = "Parameters and FLOPs of a model",
          .examples =
              "Examples:\n  sextant model show llama2-7b\n  sextant model show config.json --json",
          .options =
              {
                  {"model", &a.model, "file, built-in name or gpt:...", true},
                  {"--seq", &a.sequence, "tokens per sample (default: the model's)"},
              },
          .action = [arguments](const CommonOptions& common, Console& console) {
            run_model_show(*arguments, common, console);
          }};
}

}  // namespace sextant
