// Flows of bytes over links in virtual time, each as fast as max-min sharing lets it: a fluid, no
// packets. Completion events only: rates change when a flow begins or ends.
#pragma once

#include "core/base/units.h"
#include "simulator/links/max_min.h"

#include <cstdint>
#include <span>
#include <vector>

namespace sextant {

struct FluidFlow {
  Time start;
  Duration latency;  // passes before the first byte, whatever else runs
  double bytes = 0;
  std::vector<FlowLoad> loads;  // bytes on the link per byte of the flow
  double cap = kNoLimit;        // B/s
};

// Picoseconds that `amount` takes at `rate` per picosecond, rounded up, but for a relative 10^-12
// that floating-point arithmetic may be off by.
std::int64_t picoseconds_up(double amount, double rate);

// When each flow is over. `capacities` are in B/s. Events at one time are handled together, in the
// order of the flows. Throws Error(kUsage) for what MaxMin refuses, for negative bytes or latency,
// and for a flow without limits that has bytes.
std::vector<Time> run_flows(std::span<const double> capacities, std::span<const FluidFlow> flows);

}  // namespace sextant
