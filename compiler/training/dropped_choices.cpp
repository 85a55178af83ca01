// A choice is dropped when its position is not below the capacity (core/operators/layers/moe.cpp).
#include "compiler/training/dropped_choices.h"

#include "core/base/dtype.h"

#include <fmt/core.h>

#include <cstddef>
#include <string>
#include <utility>

namespace sextant {
namespace {

constexpr std::size_t kTokens = 0, kPositions = 2;  // operands of moe_dispatch

// No token chooses an expert twice, so an expert with a place for every token drops nothing.
bool may_drop(const LogicalGraph& graph, const LogicalOp& op) {
  if (op.role != OperatorRole::kExpertDispatch || op.phase != Phase::kForward) return false;
  const Shape& tokens = graph.tensor(op.inputs[kTokens]).type.shape;
  return op.attributes.integer("capacity") < tokens[1];
}

TensorId append_count(LogicalGraph& graph, std::string kind, const std::string& name,
                      std::vector<TensorId> inputs, Attributes attributes, int layer, Phase phase) {
  LogicalOp op;
  op.kind = std::move(kind);
  op.name = unused_name(graph, name);
  op.inputs = std::move(inputs);
  op.attributes = std::move(attributes);
  op.layer = layer;
  op.phase = phase;
  return graph.output(graph.add(std::move(op)));
}

}  // namespace

std::vector<LayerCount> add_drop_counts(LogicalGraph& graph) {
  std::vector<LayerCount> counts;
  const std::size_t num_ops = graph.ops().size();
  for (std::size_t index = 0; index < num_ops; ++index) {
    const LogicalOp op = graph.op(OpId(index));
    if (!may_drop(graph, op)) continue;
    const TensorId positions = op.inputs[kPositions];
    const DType dtype = graph.tensor(positions).type.dtype;
    const TensorId capacity =
        append_count(graph, "constant", op.name + ".capacity", {},
                     {{"shape", std::vector<std::int64_t>()},
                      {"dtype", std::string(to_string(dtype))},
                      {"value", static_cast<double>(op.attributes.integer("capacity"))}},
                     op.layer, Phase::kForward);
    const TensorId is_dropped = append_count(graph, "greater_equal", op.name + ".is_dropped",
                                             {positions, capacity}, {}, op.layer, Phase::kForward);
    const TensorId count = append_count(graph, "reduce_sum", op.name + ".dropped", {is_dropped},
                                        {{"dims", std::vector<std::int64_t>{0, 1, 2}},
                                         {"out_dtype", std::string(to_string(DType::kF32))}},
                                        op.layer, Phase::kForward);
    counts.push_back({op.layer, count});
  }
  return counts;
}

std::optional<Metric> add_drop_total(LogicalGraph& graph, const std::vector<LayerCount>& counts) {
  std::optional<TensorId> total;
  for (const LayerCount& count : counts)
    total = total ? append_count(graph, "add", fmt::format("layer{}.dropped", count.layer),
                                 {*total, count.count}, {}, count.layer, Phase::kOptimizer)
                  : count.count;
  if (!total) return std::nullopt;
  return Metric{kDroppedChoices, *total};
}

std::int64_t droppable_choices(const LogicalGraph& graph) {
  std::int64_t choices = 0;
  for (const LogicalOp& op : graph.ops())
    if (may_drop(graph, op)) choices += graph.tensor(op.inputs[kPositions]).type.shape.elements();
  return choices;
}

}  // namespace sextant
