// Steps are timed by the tape.
#include "tests/compiler/step_times.h"

#include "actor/tapes/tape.h"
#include "tests/support/recorded_step.h"

#include <algorithm>

namespace sextant::testing {

void LineNetwork::complete(const CollectiveCost& cost, std::span<const Time> arrivals,
                           std::span<Time> done) const {
  const Time last = *std::max_element(arrivals.begin(), arrivals.end());
  std::fill(done.begin(), done.end(), last + duration(cost));
}

Duration LineNetwork::duration(const CollectiveCost& cost) const {
  return Duration(start_ + per_byte_ * cost.global_bytes.value);
}

Time step_end(const PhysicalGraph& graph, const CostModel& cost, const NetworkModel& network) {
  const Tape tape = testing::record_step(graph);
  return evaluate(tape, graph, entry_durations(tape, graph, cost), cost, network, {})
      .step_end.back();
}

}  // namespace sextant::testing
