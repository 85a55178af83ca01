// The logical graph: checked appending, a hash index of names, and its Boost.Graph views.
#include "core/graphs/logical_graph.h"

#include "core/base/check.h"
#include "core/graphs/operator.h"

#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/graphviz.hpp>

#include <algorithm>
#include <functional>
#include <queue>
#include <sstream>
#include <utility>

namespace sextant {
namespace {

// Operators as vertices, one edge per use of a tensor.
using OpGraph =
    boost::adjacency_list<boost::vecS, boost::vecS, boost::bidirectionalS, boost::no_property,
                          boost::property<boost::edge_index_t, int>>;

struct OpEdges {
  OpGraph graph;
  std::vector<TensorId> tensors;  // by edge index
};

OpEdges op_edges(const LogicalGraph& graph) {
  OpEdges edges{.graph = OpGraph(graph.ops().size()), .tensors = {}};
  for (std::size_t consumer = 0; consumer < graph.ops().size(); ++consumer) {
    for (const TensorId input : graph.ops()[consumer].inputs) {
      const std::size_t producer = graph.tensor(input).producer.index();
      boost::add_edge(producer, consumer, static_cast<int>(edges.tensors.size()), edges.graph);
      edges.tensors.push_back(input);
    }
  }
  return edges;
}

std::string type_text(const TensorType& type) {
  return fmt::format("{} {}", to_string(type.shape), to_string(type.dtype));
}

TensorRole role_of_outputs(const LogicalOp& op) {
  if (op.role == OperatorRole::kParameter) return TensorRole::kParameter;
  if (op.role == OperatorRole::kInput) return TensorRole::kInput;
  const bool is_backward = op.phase == Phase::kInputGrad || op.phase == Phase::kWeightGrad;
  return is_backward ? TensorRole::kGradient : TensorRole::kActivation;
}

}  // namespace

LogicalGraph::LogicalGraph(const OperatorRegistry& registry) : registry_(&registry) {}

OpId LogicalGraph::add(LogicalOp op) {
  require(!find_op(op.name), ErrorCode::kBadInput, "two operators are named '{}'", op.name);
  require(op.layer >= 0, ErrorCode::kBadInput, "operator '{}': layer {} is negative", op.name,
          op.layer);
  const std::vector<TensorType> types = infer_outputs(op);
  op.role = registry_->get(op.kind).role;
  const OpId id(ops_.size());
  const TensorRole role = role_of_outputs(op);
  op.outputs.clear();
  for (std::size_t i = 0; i < types.size(); ++i) {
    op.outputs.push_back(TensorId(tensors_.size()));
    tensors_.push_back({.name = i == 0 ? op.name : fmt::format("{}:{}", op.name, i),
                        .type = types[i],
                        .role = role,
                        .producer = id,
                        .output_index = i});
    uses_.emplace_back();
  }
  for (std::size_t i = 0; i < op.inputs.size(); ++i)
    uses_[op.inputs[i].index()].push_back({.op = id, .input = i});
  num_layers_ = std::max(num_layers_, op.layer + 1);
  ops_.push_back(std::move(op));
  index_name(id);
  return id;
}

std::vector<TensorType> LogicalGraph::infer_outputs(const LogicalOp& op) const {
  std::vector<TensorType> inputs;
  inputs.reserve(op.inputs.size());
  for (const TensorId input : op.inputs) {
    require(input.is_valid() && input.index() < tensors_.size(), ErrorCode::kBadInput,
            "operator '{}' reads tensor {}, which does not exist yet", op.name, input.value);
    inputs.push_back(tensor(input).type);
  }
  try {
    const OperatorDef& def = registry_->get(op.kind);
    require(inputs.size() >= def.min_inputs && inputs.size() <= def.max_inputs,
            ErrorCode::kBadInput, "{} has {} inputs, wanted {} to {}", op.kind, inputs.size(),
            def.min_inputs, def.max_inputs);
    require_attributes(def, op.attributes);
    return def.infer(inputs, op.attributes);
  } catch (const Error& error) {
    throw Error(error.code(), fmt::format("operator '{}': {}", op.name, error.what()),
                error.hints());
  }
}

// Open addressing with linear probing: the table holds ids, the names stay in the operators, so
// that a graph of thousands of operators is built and copied without a second set of strings.
std::size_t LogicalGraph::slot_of_name(std::string_view name) const {
  const std::size_t mask = name_slots_.size() - 1;
  std::size_t slot = std::hash<std::string_view>{}(name)&mask;
  while (name_slots_[slot].is_valid() && op(name_slots_[slot]).name != name)
    slot = (slot + 1) & mask;
  return slot;
}

void LogicalGraph::index_name(OpId id) {
  if (2 * ops_.size() < name_slots_.size()) {
    name_slots_[slot_of_name(op(id).name)] = id;
    return;
  }
  name_slots_.assign(std::max<std::size_t>(64, 4 * name_slots_.size()), OpId());
  for (std::size_t i = 0; i < ops_.size(); ++i) name_slots_[slot_of_name(ops_[i].name)] = OpId(i);
}

std::optional<OpId> LogicalGraph::find_op(std::string_view name) const {
  if (name_slots_.empty()) return std::nullopt;
  const OpId found = name_slots_[slot_of_name(name)];
  return found.is_valid() ? std::optional(found) : std::nullopt;
}

void LogicalGraph::set_loss(TensorId loss_sum, TensorId token_count) {
  for (const TensorId id : {loss_sum, token_count}) {
    require(id.is_valid() && id.index() < tensors_.size(), ErrorCode::kUsage,
            "the loss names tensor {}, which does not exist", id.value);
    require(tensor(id).type.shape.rank() == 0, ErrorCode::kUsage,
            "the loss needs scalars, but '{}' is {}", tensor(id).name, type_text(tensor(id).type));
  }
  loss_sum_ = loss_sum;
  token_count_ = token_count;
}

std::string to_graphviz(const LogicalGraph& graph) {
  const OpEdges edges = op_edges(graph);
  const auto write_op = [&](std::ostream& out, std::size_t vertex) {
    const LogicalOp& op = graph.ops()[vertex];
    out << "[label=" << boost::escape_dot_string(op.name + "\n" + op.kind) << "]";
  };
  const auto write_tensor = [&](std::ostream& out, const OpGraph::edge_descriptor& edge) {
    const int index = boost::get(boost::edge_index, edges.graph, edge);
    const TensorId tensor = edges.tensors[static_cast<std::size_t>(index)];
    out << "[label=" << boost::escape_dot_string(type_text(graph.tensor(tensor).type)) << "]";
  };
  std::ostringstream out;
  boost::write_graphviz(out, edges.graph, write_op, write_tensor);
  return out.str();
}

std::vector<OpId> topological_order(const LogicalGraph& graph) {
  const OpGraph edges = op_edges(graph).graph;
  std::vector<std::size_t> missing(boost::num_vertices(edges));
  std::priority_queue<std::size_t, std::vector<std::size_t>, std::greater<>> ready;
  for (std::size_t op = 0; op < missing.size(); ++op) {
    missing[op] = boost::in_degree(op, edges);
    if (missing[op] == 0) ready.push(op);
  }
  std::vector<OpId> order;
  order.reserve(missing.size());
  while (!ready.empty()) {
    const std::size_t op = ready.top();
    ready.pop();
    SEXTANT_INVARIANT(op == order.size(), "operator {} follows {} others in topological order", op,
                      order.size());
    order.push_back(OpId(op));
    for (auto [edge, end] = boost::out_edges(op, edges); edge != end; ++edge) {
      const std::size_t consumer = boost::target(*edge, edges);
      if (--missing[consumer] == 0) ready.push(consumer);
    }
  }
  return order;
}

}  // namespace sextant
