// `sextant model show` and `sextant cluster show`.
#include "cli/verbs.h"
#include "core/check.h"
#include "simulator/cluster_file.h"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <map>

namespace sextant {
namespace {

using Json = nlohmann::ordered_json;

// Parameters by layer of the graph: counted from the graph itself, so they add up to the model's.
std::map<int, std::int64_t> parameters_by_layer(const LogicalGraph& graph) {
  std::map<int, std::int64_t> counts;
  for (const LogicalOp& op : graph.ops())
    if (op.kind == "parameter")
      counts[op.layer] += graph.tensor(op.outputs.front()).type.shape.elements();
  return counts;
}

std::string sourced(const Sourced& number, const std::string& text) {
  return fmt::format("{} ({}{}{})", text, to_string(number.provenance),
                     number.source.empty() ? "" : ": ", number.source);
}

}  // namespace

void run_model_show(const ModelShowArguments& arguments, const CommonOptions&, Console& console) {
  const ModelConfig model = load_model(arguments.model);
  const std::int64_t sequence = arguments.sequence > 0 ? arguments.sequence : model.sequence;
  const double per_token = model_flops_per_token(model, sequence);
  const double megatron = megatron_flops_per_token(model, sequence);
  const auto by_layer = parameters_by_layer(build_graph(model, 1, sequence, DType::kF32));

  console.say(fmt::format("{}: {} parameters", model.name, count_parameters(model)));
  console.say(fmt::format(
      "{} layers, hidden {}, {} heads of {} ({} for keys and values), MLP {}, vocabulary {}",
      model.layers, model.hidden, model.heads, model.head_size, model.kv_heads, model.ffn,
      model.vocab));
  console.say(
      fmt::format("model FLOPs per token at sequence {}: {:.4g} (causal attention); "
                  "Megatron convention {:.4g}",
                  sequence, per_token, megatron));
  Table table({"layers", "parameters each"});
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
  for (const std::string& note : model.notes) console.say("note: " + note);

  Json layers = Json::array();
  for (const auto& [layer, count] : by_layer)
    layers.push_back({{"layer", layer}, {"parameters", count}});
  console.document("model_show", {{"name", model.name},
                                  {"parameters", count_parameters(model)},
                                  {"flops_per_token", per_token},
                                  {"megatron_flops_per_token", megatron},
                                  {"sequence", sequence},
                                  {"layers", layers},
                                  {"notes", model.notes}});
}

void run_cluster_show(const std::string& argument, const CommonOptions&, Console& console) {
  const Cluster cluster = load_cluster(argument);
  const DeviceKind& device = cluster.device;
  console.say(fmt::format("{}: {} nodes x {} {}, {} each", cluster.name, cluster.nodes,
                          cluster.devices_per_node, device.name, to_text(device.memory)));
  for (const PeakRate& peak : device.peaks)
    console.say(fmt::format(
        "  {}: {}", to_string(peak.dtype),
        sourced(peak.flops_per_second, flops_rate_to_text(peak.flops_per_second.value))));
  console.say("  memory: " +
              sourced(device.memory_bandwidth, bandwidth_to_text(device.memory_bandwidth.value)));
  console.say("  matmul efficiency: " +
              sourced(device.matmul_efficiency, percent(device.matmul_efficiency.value)));
  console.say("  memory efficiency: " +
              sourced(device.memory_efficiency, percent(device.memory_efficiency.value)));
  const auto link = [&](const char* where, const NetworkLink& connection) {
    console.say(fmt::format(
        "  {} {}: {}, latency {}", where, connection.name,
        sourced(connection.bandwidth, bandwidth_to_text(connection.bandwidth.value)),
        sourced(connection.latency, to_text(duration_from_seconds(connection.latency.value)))));
  };
  if (cluster.devices_per_node > 1) link("within a node:", cluster.intra_node);
  if (cluster.nodes > 1) link("between nodes:", cluster.inter_node);
  console.document("cluster_show", {{"cluster", Json::parse(to_json_text(cluster))}});
}

}  // namespace sextant
