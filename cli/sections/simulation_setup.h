// How `simulate` was told to time: mode, variation, and the models that go with both.
#pragma once

#include "cli/verbs.h"
#include "core/costs/cluster.h"
#include "simulator/costs/models.h"
#include "simulator/costs/ranked_costs.h"
#include "simulator/costs/routed_graph.h"
#include "simulator/modes/simulate.h"
#include "simulator/reports/goodput.h"
#include "simulator/reports/what_if.h"

#include <cstdint>
#include <optional>
#include <vector>

namespace sextant {

struct SimulationSetup {
  SimulateOptions options;
  std::optional<ExpertRouting> routing;
  const RoutedGraph* routed = nullptr;  // by that routing, once there is a graph
  bool links = false;                   // also where nothing is timed by them
  std::vector<Straggler> stragglers;
  std::vector<WhatIf> changes;
  std::vector<WhatIf> sweep;
  std::optional<Reliability> reliability;
};

// Of a plan for `ranks` devices. Throws Error(kUsage) for arguments that contradict each other,
// that cannot be read, or that the cluster does not have: before work is lost or a line is said.
SimulationSetup simulation_setup(const SimulateArguments& arguments, const CommonOptions& common,
                                 const Cluster& cluster, std::int64_t ranks);

// Of this or a changed cluster: timed mode wants to know of links.
TimingModels models_for(const SimulationSetup& setup, const Cluster& cluster, DType dtype);
SimulateOptions options_for(const SimulationSetup& setup, const Cluster& cluster);

}  // namespace sextant
