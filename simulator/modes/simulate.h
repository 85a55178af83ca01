// A physical graph in virtual time: step time, its parts, memory, trace.
#pragma once

#include "actor/protocol/proven_graph.h"
#include "actor/protocol/run_ahead.h"
#include "core/costs/cost_model.h"
#include "core/graphs/physical_graph.h"
#include "simulator/costs/overlap.h"
#include "simulator/steps/timeline.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace sextant {

// Mean over ranks, with the extremes beside it; the parts of one rank add up to the step time
// (simulator/steps/step_parts.h), and so do the means.
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
  Time begin, end;  // since the first begin of the step
  std::int32_t act = 0;
};

struct Simulation {
  Duration step_time;                // steady state: between the ends of the last two steps
  std::vector<Duration> step_times;  // of every step simulated; the first ones fill pipelines
  StepParts parts;
  std::vector<Bytes> peak_memory_by_class;  // worst device, kNumMemoryClasses entries
  Bytes peak_memory;                        // its arena
  std::int64_t ranks_simulated = 0;
  std::int64_t events = 0;
  std::optional<BlockUse> blocks;  // block mode
  std::vector<TraceSlice> slices;  // only when asked for; of one step, by rank, queue, begin
  // Only when asked for: what the communications of one step send, by reference volumes.
  std::vector<PairBytes> traffic;
};

enum class SimulationMode : std::uint8_t {
  kTape,  // one pass over the recorded step
  // The recorded step as max-plus matrices of the blocks that recur in it: tape, without jitter and
  // for networks whose members complete together.
  kBlock,
  kStep,  // the actors, launch by launch, against SimDevices: the reference
  // The recorded step in the order of time: communications share links, and slow kernels and are
  // slowed by them. Step, where nothing of that happens; never earlier than tape.
  kTimed,
};

struct SimulateOptions {
  SimulationMode mode = SimulationMode::kTape;
  bool folded = true;  // one rank per class; times are equal, only cheaper
  bool keep_slices = false;
  bool keep_traffic = false;                // every pair of ranks is counted, so fold off
  std::int64_t steps = 4;                   // simulated; the last is reported
  std::int64_t window = kRunAheadLaunches;  // unfinished launches per queue
  double jitter = 0.0;  // relative, of compute durations; splits nothing, so fold off
  std::uint64_t seed = 0;
  // Timed mode: by rank of the graph; empty: kernels and communications leave each other alone.
  std::vector<OverlapShares> overlap = {};
};

// Throws Error(kInfeasible) when the graph cannot run, Error(kUsage) for options without meaning.
Simulation simulate(const PhysicalGraph& graph, const CostModel& cost, const NetworkModel& network,
                    const SimulateOptions& options = {});
// As above, of a graph that is known to run.
Simulation simulate(const ProvenGraph& proven, const CostModel& cost, const NetworkModel& network,
                    const SimulateOptions& options = {});

// The times alone, of every rank that was simulated.
Timeline simulate_timeline(const PhysicalGraph& graph, const CostModel& cost,
                           const NetworkModel& network, const SimulateOptions& options = {});
Timeline simulate_timeline(const ProvenGraph& proven, const CostModel& cost,
                           const NetworkModel& network, const SimulateOptions& options = {});

// What simulate() adds to the times: parts, memory, slices.
Simulation simulation_of(const PhysicalGraph& graph, const CostModel& cost,
                         const Timeline& timeline, const SimulateOptions& options);

// One slice per run, by rank, queue, begin: of times that no cost model says.
std::vector<TraceSlice> run_slices(const PhysicalGraph& graph, const Timeline& timeline);

// Throws Error(kUsage) for options without meaning.
void validate(const SimulateOptions& options);

// Whether one rank of each class is run: jitter is a stream per rank, and traffic counts all pairs.
bool folds(const SimulateOptions& options);

}  // namespace sextant
