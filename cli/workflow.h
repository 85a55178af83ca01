// From what the user named to what the other folders take: model, cluster, strategy -> plan ->
// physical graph.
#pragma once

#include "compiler/expand/expand.h"
#include "compiler/expand/plan.h"
#include "compiler/words/staged_graph.h"
#include "core/costs/cost_model.h"
#include "core/graphs/logical_graph.h"
#include "core/graphs/physical_graph.h"
#include "experiments/jobs/job.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace sextant {

struct BoxingTables;  // compiler/words/stage.h

// Everything that stands behind a plan.
struct PlannedJob {
  Job job;
  Plan plan;
  // A step may be timed with others than it was compiled with.
  std::shared_ptr<CostModel> cost;
  std::shared_ptr<NetworkModel> network;
  // Tables of the models that the job was loaded with, which they keep; its compiles and remedies
  // share them. Not for several threads.
  std::shared_ptr<BoxingTables> boxing;
};

// JSON that says it is a plan; a model file has no key `strategy`. Documents that verbs print or
// write have one too, and are refused.
bool is_plan_file(const std::string& path);

// The plan of a job under a strategy, with the texts of model and cluster and their hashes; `names`
// says what the user called them.
Plan make_plan(const Job& job, const JobArguments& names, const Strategy& strategy);
// A plan file (a path that ends in .json and holds a plan), or MODEL + cluster + strategy. A plan
// whose model or cluster text does not have the hash it states is refused.
PlannedJob load_planned_job(const JobArguments& arguments);

// Compiles a plan so far. Each throws Error(kInfeasible) where model, strategy and batch do not fit
// each other. Arenas grow to the room that the cluster of the plan has.
StagedGraph staged_graph(const PlannedJob& planned);
PhysicalGraph physical_graph(const PlannedJob& planned);
ExpandedGraph expanded_graph(const PlannedJob& planned);
// Arenas grow to `room`; without room it is the tight plan.
ExpandedGraph expanded_graph(const PlannedJob& planned, const std::optional<ArenaRoom>& room);
// The graph of a plan whose arenas may grow to `room`; without room, the tight plan.
PhysicalGraph physical_graph(const PlannedJob& planned, const std::optional<ArenaRoom>& room);
// Throws Error(kInfeasible) when the worst device has too little memory: by how much, which class,
// and what would help.
void require_fits(const PlannedJob& planned, const PhysicalGraph& graph);

}  // namespace sextant
