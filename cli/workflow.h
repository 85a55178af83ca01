// From what the user named to what the other folders take: model, cluster, strategy -> plan ->
// physical graph.
#pragma once

#include "compiler/expand/expand.h"
#include "compiler/expand/plan.h"
#include "compiler/words/staged_graph.h"
#include "core/costs/cluster.h"
#include "core/costs/cost_model.h"
#include "core/graphs/logical_graph.h"
#include "core/graphs/physical_graph.h"
#include "models/any_model.h"
#include "search/search/search.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace sextant {

// How a verb may name its work: a plan file, or MODEL with cluster and strategy.
struct JobArguments {
  std::string plan_or_model;
  std::string cluster;
  std::string strategy;
  std::string optimizer;  // empty: the plan's, or the default
  std::int64_t global_batch = 0;
  std::optional<std::int64_t> sequence;  // none: the model's
  std::string dtype;                     // empty: the best the device has a rate for
};

// A model on a cluster, without a strategy yet.
struct Job {
  AnyModel model;
  Cluster cluster;
  std::int64_t global_batch = 1;
  std::int64_t sequence = 0;
  DType dtype = DType::kF32;
  OptimizerOptions optimizer;
};

// Everything that stands behind a plan.
struct PlannedJob {
  Job job;
  Plan plan;
  std::unique_ptr<CostModel> cost;
  std::unique_ptr<NetworkModel> network;
};

// JSON that says it is a plan; a model file has no key `strategy`. Documents that verbs print or
// write have one too, and are refused.
bool is_plan_file(const std::string& path);

// bf16 or f16 where the device has a matrix rate for it, else f32.
DType compute_dtype(const Cluster& cluster);

// What nobody said and a plan rests on, one line each: of the model, and devices that stand in for
// others.
std::vector<std::string> assumptions_of(const Job& job);

Job make_job(const JobArguments& arguments);
Plan make_plan(const Job& job, const JobArguments& names, const Strategy& strategy);
// A plan file (a path that ends in .json and holds a plan), or MODEL + cluster + strategy. A plan
// whose model or cluster text does not have the hash it states is refused.
PlannedJob load_planned_job(const JobArguments& arguments);
// Tokens per sample: what was asked for with --seq, else the model's own.
std::int64_t asked_sequence(const AnyModel& model, std::optional<std::int64_t> asked);

LogicalGraph training_graph(const Job& job, const Strategy& strategy);
StagedGraph staged_graph(const PlannedJob& planned);
PhysicalGraph physical_graph(const PlannedJob& planned);
ExpandedGraph expanded_graph(const PlannedJob& planned);
ExpandedGraph expanded_graph(const PlannedJob& planned, const std::optional<ArenaRoom>& room);
// The graph of a plan whose arenas may grow to `room`; without room, the tight plan.
PhysicalGraph physical_graph(const PlannedJob& planned, const std::optional<ArenaRoom>& room);
// Throws Error(kInfeasible) when the worst device has too little memory: by how much, which class,
// and what would help.
void require_fits(const PlannedJob& planned, const PhysicalGraph& graph);
SearchProblem search_problem(const Job& job);

double model_flops_per_step(const Job& job);
// Model FLOPs over what the devices could do; nothing when the device has no rate for the dtype.
std::optional<double> mfu(const Job& job, double step_time_s, std::int64_t devices);

}  // namespace sextant
