// One pass from the last operator to the first, one to rebuild.
#include "compiler/training/dead_operators.h"

#include "core/graphs/operator.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace sextant {
namespace {

std::vector<bool> live_operators(const LogicalGraph& graph) {
  std::vector<bool> live(graph.ops().size(), false);
  if (graph.loss_sum())
    for (const TensorId root : {*graph.loss_sum(), *graph.token_count()})
      live[graph.tensor(root).producer.index()] = true;
  for (std::size_t index = live.size(); index-- > 0;) {
    const LogicalOp& op = graph.op(OpId(index));
    const OperatorDef& def = graph.registry().get(op.kind);
    if (!live[index] && def.state_outputs.empty() && !def.on_host) continue;
    live[index] = true;
    for (const TensorId input : op.inputs) live[graph.tensor(input).producer.index()] = true;
    if (op.recompute_of) live[op.recompute_of->index()] = true;
  }
  return live;
}

}  // namespace

LogicalGraph without_dead_operators(LogicalGraph training) {
  const std::vector<bool> live = live_operators(training);
  if (std::find(live.begin(), live.end(), false) == live.end()) return training;
  LogicalGraph kept(training.registry());
  std::vector<TensorId> tensors(training.tensors().size());
  std::vector<OpId> ops(training.ops().size());
  for (std::size_t index = 0; index < live.size(); ++index) {
    if (!live[index]) continue;
    LogicalOp op = training.op(OpId(index));
    for (TensorId& input : op.inputs) input = tensors[input.index()];
    if (op.recompute_of) op.recompute_of = ops[op.recompute_of->index()];
    ops[index] = kept.add(std::move(op));
    for (std::size_t i = 0; i < training.op(OpId(index)).outputs.size(); ++i)
      tensors[training.op(OpId(index)).outputs[i].index()] = kept.output(ops[index], i);
  }
  if (training.loss_sum())
    kept.set_loss(tensors[training.loss_sum()->index()], tensors[training.token_count()->index()]);
  return kept;
}

}  // namespace sextant
