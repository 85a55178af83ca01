// A physical graph in virtual time: step time, its parts, memory, trace.
#pragma once

#include "actor/tape.h"
#include "core/cluster.h"
#include "core/cost_model.h"
#include "core/physical_graph.h"

#include <cstdint>
#include <string>
#include <vector>

namespace sextant {

// Mean over ranks, with the extremes beside it; every instant of a rank belongs to the first that
// applies: optimizer compute; compute; communication in progress with all members arrived; device
// idle because nothing was issued (host); all else (bubble).
struct StepParts {
  struct Spread {
    double mean_s = 0, min_s = 0, max_s = 0;
  };
  Spread optimizer, compute, exposed_communication, host, bubble;
};

struct TraceSlice {
  Rank rank;
  QueueRole queue = QueueRole::kCompute;
  std::string name;
  Time begin, end;
  std::int32_t act = 0;
};

struct Simulation {
  Duration step_time;  // steady state: between the ends of the last two steps
  StepParts parts;
  std::vector<Bytes> peak_memory_by_class;  // worst device
  Bytes peak_memory;
  std::int64_t ranks_simulated = 0;
  std::int64_t events = 0;
  std::vector<TraceSlice> slices;  // only when asked for
};

enum class SimulationMode : std::uint8_t { kTape, kStep };

struct SimulateOptions {
  SimulationMode mode = SimulationMode::kTape;
  bool folded = true;  // one rank per class; times are equal, only cheaper
  bool keep_slices = false;
  std::int64_t steps = 3;
  double jitter = 0.0;
  std::uint64_t seed = 0;
};

Simulation simulate(const PhysicalGraph& graph, const CostModel& cost, const NetworkModel& network,
                    const SimulateOptions& options = {});

// Chrome trace JSON ("traceEvents", microseconds), one process per rank and one thread per queue.
std::string to_chrome_trace(const Simulation& simulation);

}  // namespace sextant
