// A simulated step in the trace event format, which Perfetto and chrome://tracing open: slices that
// nest, counters, times from 0.
#pragma once

#include "simulator/modes/simulate.h"
#include "simulator/steps/timeline.h"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace sextant {

// A number over time, drawn under its rank. It keeps its value until the next sample.
struct CounterTrack {
  struct Sample {
    Time at;  // since the first begin of the step
    std::int64_t value = 0;
    bool operator==(const Sample&) const = default;
  };
  Rank rank;
  std::string name;  // "compute: launches in flight"
  std::vector<Sample> samples;
};

// Per rank and queue: launches that the host has issued and that are not over, where there ever are
// any. The first sample is what the step finds.
std::vector<CounterTrack> launches_in_flight(const Timeline& timeline);

// What the lane of a slice is called.
std::string lane_name(const TraceSlice& slice);

// Chrome trace JSON ("traceEvents", microseconds with six decimals: picoseconds), one process per
// rank and one thread per queue. Needs the slices (SimulateOptions::keep_slices).
std::string to_chrome_trace(const Simulation& simulation,
                            std::span<const CounterTrack> counters = {});

struct NamedSlices {
  std::string name;  // "plan", "run"
  std::span<const TraceSlice> slices;
};

// Several steps of one plan side by side, with equal lanes: each rank has a process for each,
// "rank 0: plan", "rank 0: run".
std::string to_chrome_trace(std::span<const NamedSlices> steps);

}  // namespace sextant
