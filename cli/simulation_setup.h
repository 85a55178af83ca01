// How `simulate` was told to time: mode, variation, and the models that go with both.
#pragma once

#include "cli/verbs.h"
#include "core/cluster.h"
#include "simulator/models.h"
#include "simulator/ranked_costs.h"
#include "simulator/simulate.h"

#include <vector>

namespace sextant {

struct SimulationSetup {
  SimulateOptions options;
  std::vector<Straggler> stragglers;
};

// Throws Error(kUsage) for arguments that contradict each other, before work is lost.
SimulationSetup simulation_setup(const SimulateArguments& arguments, const CommonOptions& common,
                                 const Cluster& cluster);

// Of this or a changed cluster: timed mode wants to know of links.
TimingModels models_for(const SimulationSetup& setup, const Cluster& cluster, DType dtype);
SimulateOptions options_for(const SimulationSetup& setup, const Cluster& cluster);

}  // namespace sextant
