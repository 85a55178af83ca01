// `simulate --data-times`: the actors that make samples beside the simulated step.
#pragma once

#include "cli/console.h"
#include "core/graphs/physical_graph.h"
#include "simulator/modes/simulate.h"
#include "simulator/reports/data_pipeline.h"
#include "simulator/steps/timeline.h"

#include <nlohmann/json_fwd.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace sextant {

struct DataSection {
  DataPipeline pipeline;
  DataSchedule schedule;
  Duration step;  // without data actors
};

// "read=1ms decode=40ms augment=8ms images=1ms registers=2": times per step, in the order in which
// samples pass; the last delivers to the device. Actors get the input's name in front. Throws
// Error(kUsage).
DataPipeline parse_data_times(std::string_view text, std::string_view input);

// Throws Error(kUsage) where the model reads neither images nor tokens.
DataSection data_section(std::string_view text, const PhysicalGraph& graph,
                         const Timeline& timeline, Duration step);
void say(const DataSection& section, const Console& console);
nlohmann::ordered_json data_json(const DataSection& section);

// The acts that overlap one step, for the trace: a lane for each actor, on the first rank.
void add_data_slices(const DataSection& section, std::vector<TraceSlice>& slices);

}  // namespace sextant
