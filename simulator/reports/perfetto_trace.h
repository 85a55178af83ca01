// A simulated step as Perfetto's native trace: what chrome_trace.h writes, in a third of the
// bytes, for steps of millions of launches.
#pragma once

#include "simulator/modes/simulate.h"
#include "simulator/reports/chrome_trace.h"

#include <span>
#include <string>

namespace sextant {

// Protobuf of perfetto.protos.Trace: one process per rank, one thread per queue, slices that nest,
// counters. Timestamps are whole nanoseconds, rounded down, so that what nests goes on nesting.
// Needs the slices (SimulateOptions::keep_slices).
std::string to_perfetto_trace(const Simulation& simulation,
                              std::span<const CounterTrack> counters = {});

}  // namespace sextant
