// One pass from the last operator to the first, one to rebuild.
#include "compiler/training/dead_operators.h"

#include "core/graphs/graph_rewriter.h"
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
  GraphRewriter kept(training);
  for (std::size_t index = 0; index < live.size(); ++index)
    if (live[index]) kept.copy(OpId(index));
  return std::move(kept).finish();
}

}  // namespace sextant
