// Glue without decisions of its own.
#include "cli/workflow.h"

#include "compiler/memory/memory_report.h"
#include "compiler/words/stage.h"
#include "core/base/check.h"
#include "core/text/counted_text.h"
#include "core/text/json_reader.h"
#include "search/search/memory_help.h"
#include "search/space/conditions.h"
#include "simulator/cluster_files/cluster_file.h"
#include "simulator/cluster_files/known_devices.h"
#include "simulator/costs/library_memory.h"
#include "simulator/costs/models.h"

#include <algorithm>

namespace sextant {
namespace {

PlannedJob from_plan(const Plan& plan, const std::string& file) {
  PlannedJob planned;
  planned.plan = plan;
  planned.job.model = any_model_from_json(plan.model_text);
  planned.job.cluster = limited(cluster_from_json(plan.cluster_text, file), plan.memory);
  planned.job.global_batch = plan.global_batch;
  planned.job.sequence = plan.sequence;
  planned.job.dtype = plan.compute_dtype;
  planned.job.optimizer = plan.optimizer;
  return planned;
}

// Tables that keep the models which they refer to.
std::shared_ptr<BoxingTables> boxing_tables(std::shared_ptr<const NetworkModel> network,
                                            std::shared_ptr<const CostModel> cost) {
  struct Kept {
    std::shared_ptr<const NetworkModel> network;
    std::shared_ptr<const CostModel> cost;
    BoxingTables tables;
  };
  const auto kept =
      std::make_shared<Kept>(Kept{network, cost, BoxingTables(network.get(), cost.get())});
  return {kept, &kept->tables};
}

}  // namespace

bool is_plan_file(const std::string& path) {
  if (!path.ends_with(".json")) return false;
  const JsonDocument document = read_json_file(path);
  const JsonCursor root = document.root();
  if (!root.is_object() || !root.contains("strategy")) return false;
  require(!root.contains("schema"), ErrorCode::kBadInput,
          "{}: no plan but what a verb wrote; `search --out` and `run --out` write plan.json",
          path);
  return true;
}

Plan make_plan(const Job& job, const JobArguments& names, const Strategy& strategy) {
  Plan plan;
  plan.model = names.plan_or_model;
  plan.model_text = to_json_text(job.model);
  plan.model_hash = text_hash(plan.model_text);
  plan.cluster = names.cluster;
  plan.cluster_text = to_json_text(job.cluster);
  plan.cluster_hash = text_hash(plan.cluster_text);
  plan.strategy = strategy;
  plan.global_batch = job.global_batch;
  plan.sequence = job.sequence;
  plan.compute_dtype = job.dtype;
  plan.optimizer = job.optimizer;
  plan.assumptions = assumptions_of(job);
  return plan;
}

PlannedJob load_planned_job(const JobArguments& arguments) {
  PlannedJob planned;
  if (is_plan_file(arguments.plan_or_model)) {
    require(arguments.strategy.empty() && arguments.cluster.empty() &&
                arguments.global_batch == 0 && arguments.optimizer.empty() && !arguments.sequence &&
                arguments.dtype.empty(),
            ErrorCode::kUsage,
            "{} is a plan: it has its own cluster, strategy, optimizer, global batch, sequence and "
            "type; leave out -c, --strategy, --optimizer, --global-batch, --seq and --dtype",
            arguments.plan_or_model);
    planned =
        from_plan(plan_from_json(read_text_file(arguments.plan_or_model), arguments.plan_or_model),
                  arguments.plan_or_model);
  } else {
    require(!arguments.strategy.empty(), ErrorCode::kUsage,
            "{} is no plan file, and a model needs a strategy: --strategy \"dp=2 tp=4 pp=1\"",
            arguments.plan_or_model);
    planned.job = make_job(arguments);
    const Strategy strategy = with_words_of(planned.job.model, parse_strategy(arguments.strategy));
    planned.plan = make_plan(planned.job, arguments, strategy);
  }
  require(planned.plan.strategy.ranks() <= planned.job.cluster.num_devices(),
          ErrorCode::kInfeasible, "the strategy uses {}, the cluster has {}",
          counted(planned.plan.strategy.ranks(), "rank"),
          counted(planned.job.cluster.num_devices(), "device"));
  TimingModels models = make_timing_models(planned.job.cluster, planned.job.dtype);
  planned.cost = std::move(models.cost);
  planned.network = std::move(models.network);
  planned.boxing = boxing_tables(planned.network, planned.cost);
  return planned;
}

namespace {

LogicalGraph graph_of_plan(const PlannedJob& planned) {
  return training_graph(planned.job, planned.plan.strategy);
}

}  // namespace

StagedGraph staged_graph(const PlannedJob& planned) {
  const Strategy& strategy = planned.plan.strategy;
  return make_staged_graph(graph_of_plan(planned), strategy,
                           num_micro_batches(strategy, planned.plan.global_batch), *planned.boxing);
}

ExpandedGraph expanded_graph(const PlannedJob& planned, const std::optional<ArenaRoom>& room) {
  const Strategy& strategy = planned.plan.strategy;
  num_micro_batches(strategy, planned.plan.global_batch);  // refuses before anything is built
  ExpandOptions options = planned.plan.expand;
  options.room = room;
  options.header = {.model_hash = planned.plan.model_hash,
                    .cluster_hash = planned.plan.cluster_hash,
                    .plan_hash = text_hash(to_json_text(planned.plan))};
  return compile_and_report(graph_of_plan(planned), strategy, planned.plan.global_batch,
                            *planned.cost, *planned.network, *planned.boxing, options);
}

ExpandedGraph expanded_graph(const PlannedJob& planned) {
  return expanded_graph(planned, arena_room(planned.job.cluster));
}

PhysicalGraph physical_graph(const PlannedJob& planned, const std::optional<ArenaRoom>& room) {
  return expanded_graph(planned, room).take_graph();
}

PhysicalGraph physical_graph(const PlannedJob& planned) {
  return expanded_graph(planned).take_graph();
}

void require_fits(const PlannedJob& planned, const PhysicalGraph& graph) {
  const DeviceMemory memory = device_memory(graph, planned.job.cluster);
  if (memory.fits()) return;
  const SearchProblem problem = search_problem(planned.job);
  SearchModels models = make_search_models(problem);
  models.boxing = planned.boxing;  // the same models made these plans
  const auto remedies =
      memory_remedies(problem, planned.plan.strategy, models, memory.needed(), memory.capacity);
  const Bytes beside = total(memory.libraries);
  refuse_size(graph, memory.program, beside,
              fmt::format("libraries {}: {}", to_text(beside), to_text(memory.libraries)),
              memory.capacity, remedy_texts(remedies, memory.needed()));
}

}  // namespace sextant
