// Data actors beside a step: what a step loses where they are slower than it, and which of them it
// loses it by.
#pragma once

#include "core/base/units.h"
#include "core/graphs/physical_graph.h"
#include "simulator/steps/timeline.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sextant {

struct DataActorCost {
  std::string name;
  Duration per_step;  // of all its acts in one step
};

// A chain of actors, each on a thread of its own. All but the last have `num_registers` registers;
// the last delivers into the register that the step reads, of which there is one.
struct DataPipeline {
  std::vector<DataActorCost> actors;
  std::int32_t num_registers = 2;
};

// A step without data actors, from its own begin.
struct StepReads {
  Duration length;      // from step to step
  Duration first_read;  // begin of the first launch that reads the input
  Duration last_read;   // end of the last one
};

struct DataAct {
  std::size_t actor = 0;
  Time begin, end;  // since the begin of the step that is shown
};

struct DataSchedule {
  Duration step;                        // from step to step, mean
  std::vector<double> busy;             // by actor, share of the time
  std::optional<std::size_t> limiting;  // the actor without which steps would follow fastest
  std::vector<DataAct> acts;            // that overlap one step in the steady state
};

// In virtual time, from an empty pipeline on, by max-plus: an act begins when its actor is free,
// its input is there and its register is free again. A step is taken as rigid: it begins late as a
// whole where its input comes late, which is an upper bound where launches before the first read
// could begin already. Nothing shares processors.
DataSchedule schedule_data(const DataPipeline& pipeline, const StepReads& step);

// When the launches of a simulated step read `input`, on the first rank that has it. Nothing where
// none has.
std::optional<StepReads> reads_of(const PhysicalGraph& graph, const Timeline& timeline,
                                  std::string_view input, Duration step);

}  // namespace sextant
