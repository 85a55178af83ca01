// The data that a run trains on: opened, brought to the ranks in stages, and how long that takes.
#pragma once

#include "cli/console.h"
#include "cli/training/run_setup.h"
#include "cli/verbs.h"
#include "core/base/units.h"
#include "core/graphs/physical_graph.h"
#include "experiments/data_pipeline/data_times.h"
#include "io/data/sample_data.h"
#include "io/open_data.h"
#include "io/training_host.h"

#include <nlohmann/json_fwd.hpp>

#include <memory>
#include <string>

namespace sextant {

// The user's data; nullptr for `random`: then tokens are drawn like every other input. Throws
// Error(kUsage) where the model reads tokens and there are none, or reads nothing of the kind, and
// what open_data and require_enough throw.
std::unique_ptr<SampleData> open_run_data(const PhysicalGraph& graph, const DataOptions& options);

// The same word in all processes that read the same data; `data` may be nullptr.
std::string data_hash(const SampleData* data);

// Adds the actors that make samples of `data`, if they are made in stages. Throws Error(kUsage) for
// --registers without such actors, or out of range.
void add_data_actors_for(const SampleData* data, const RunArguments& arguments,
                         PhysicalGraph& graph);

// Host actors that bring `data` (nullptr: none) and synthetic inputs; `data` outlives them.
TrainingHost training_host(const SampleData* data, const RunSetup& setup);

// Which inputs are made up, and whether they have room (bytes of this machine) to be kept.
void say_synthetic_inputs(const PhysicalGraph& graph, const SampleData* data, Bytes room,
                          const Console& console);

// How long data actors took, as a table and as part of the verb's document; nothing without any.
void say_data(const DataTimes& times, const Console& console);
void add_data(const DataTimes& times, const RunArguments& arguments,
              nlohmann::ordered_json& document);

}  // namespace sextant
