// Per step or per micro-batch, by what operators read and update.
#include "compiler/training/rates.h"

#include "core/graphs/operator.h"

#include <algorithm>

namespace sextant {

std::vector<Rate> rates_of(const LogicalGraph& training) {
  std::vector<Rate> rates;
  const auto per_step = [&](TensorId input) {
    return rates[training.tensor(input).producer.index()] == Rate::kPerStep;
  };
  for (const LogicalOp& op : training.ops()) {
    const OperatorDef& def = training.registry().get(op.kind);
    bool once = op.phase == Phase::kOptimizer || !def.state_outputs.empty();
    if (def.on_host)
      once = !op.inputs.empty();  // a sink reads sums of the step, a source delivers micro-batches
    else
      once = once || std::all_of(op.inputs.begin(), op.inputs.end(), per_step);
    rates.push_back(once ? Rate::kPerStep : Rate::kPerMicroBatch);
  }
  return rates;
}

}  // namespace sextant
