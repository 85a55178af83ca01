// How long steps of small graphs take on a network of two numbers.
#pragma once

#include "core/base/units.h"
#include "core/costs/cost_model.h"
#include "core/graphs/physical_graph.h"

#include <cstdint>
#include <span>

namespace sextant::testing {

// A start, and a time per byte, however many members; picoseconds.
class LineNetwork : public NetworkModel {
 public:
  LineNetwork(std::int64_t start, std::int64_t per_byte) : start_(start), per_byte_(per_byte) {}
  void complete(const CollectiveCost& cost, std::span<const Time> arrivals,
                std::span<Time> done) const override;
  Duration duration(const CollectiveCost& cost) const override;

 private:
  std::int64_t start_, per_byte_;
};

// End of the last of the steps that a tape has by default.
Time step_end(const PhysicalGraph& graph, const CostModel& cost, const NetworkModel& network);

}  // namespace sextant::testing
