// Signatures are asked of the registry each time: whoever asks does so once per operator.
#include "compiler/words/operator_rows.h"

#include <algorithm>

namespace sextant {

std::vector<SbpSignature> rows_of(const LogicalGraph& graph, const LogicalOp& op) {
  std::vector<TensorType> inputs, outputs;
  for (const TensorId input : op.inputs) inputs.push_back(graph.tensor(input).type);
  for (const TensorId output : op.outputs) outputs.push_back(graph.tensor(output).type);
  return graph.registry().get(op.kind).signatures(inputs, outputs, op.attributes);
}

bool works_on_shards(const LogicalGraph& graph, const LogicalOp& op) {
  if (op.inputs.empty() || op.outputs.size() != 1) return false;
  const Shape& output = graph.tensor(op.outputs[0]).type.shape;
  const auto rows = rows_of(graph, op);
  for (std::size_t dim = 0; dim < output.rank(); ++dim) {
    const bool has_row = std::any_of(rows.begin(), rows.end(), [&](const SbpSignature& row) {
      if (row.outputs[0] != Sbp::split(dim)) return false;
      for (std::size_t i = 0; i < op.inputs.size(); ++i)
        if (graph.tensor(op.inputs[i]).type.shape == output && row.inputs[i] != Sbp::split(dim))
          return false;
      return true;
    });
    if (!has_row) return false;
  }
  return true;
}

bool is_elementwise(const LogicalGraph& graph, const LogicalOp& op) {
  return op.inputs.size() == 1 && works_on_shards(graph, op) &&
         graph.tensor(op.inputs[0]).type.shape == graph.tensor(op.outputs[0]).type.shape;
}

std::vector<std::size_t> operands_split_with(const LogicalGraph& graph, const LogicalOp& op,
                                             std::size_t input) {
  const Shape& shape = graph.tensor(op.inputs[input]).type.shape;
  const auto rows = rows_of(graph, op);
  const auto row = std::find_if(rows.begin(), rows.end(), [&](const SbpSignature& candidate) {
    return candidate.inputs[input] == Sbp::split(0);
  });
  std::vector<std::size_t> operands;
  if (row == rows.end()) return operands;
  for (std::size_t i = 0; i < op.inputs.size(); ++i)
    if (row->inputs[i] == Sbp::split(0) && graph.tensor(op.inputs[i]).type.shape == shape)
      operands.push_back(i);
  return operands;
}

}  // namespace sextant
