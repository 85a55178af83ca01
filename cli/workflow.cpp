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

bool has_peak(const Cluster& cluster, DType dtype) {
  const auto& peaks = cluster.device.peaks;
  return std::any_of(peaks.begin(), peaks.end(),
                     [dtype](const PeakRate& peak) { return peak.dtype == dtype; });
}

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

// The words that a graph in a file gives its tensors.
std::vector<WordPin> words_of(const AnyModel& model) {
  const auto* document = std::get_if<GraphDocument>(&model);
  if (document == nullptr) return {};
  require(document->placements.empty(), ErrorCode::kUsage,
          "{} has placements of its own: leave them out of the file to use a strategy",
          document->name);
  std::vector<WordPin> pins;
  for (const GraphDocument::Words& words : document->words) {
    const LogicalOp& op = document->graph.op(words.op);
    if (words.is_input)
      pins.push_back({.name = op.name, .input = words.index, .words = words.words});
    else
      pins.push_back({.name = document->graph.tensor(op.outputs[words.index]).name,
                      .input = std::nullopt,
                      .words = words.words});
  }
  return pins;
}

// They are pins in front of the strategy's own, which may say otherwise.
Strategy with_words_of(const AnyModel& model, Strategy strategy) {
  std::vector<WordPin> pins = words_of(model);
  std::erase_if(pins, [&](const WordPin& pin) {
    return std::any_of(strategy.pins.begin(), strategy.pins.end(), [&](const WordPin& given) {
      return given.name == pin.name && given.input == pin.input;
    });
  });
  strategy.pins.insert(strategy.pins.begin(), pins.begin(), pins.end());
  return strategy;
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

DType compute_dtype(const Cluster& cluster) {
  for (const DType dtype : {DType::kBF16, DType::kF16})
    if (has_peak(cluster, dtype)) return dtype;
  return DType::kF32;
}

Job make_job(const JobArguments& arguments) {
  require(!arguments.cluster.empty(), ErrorCode::kUsage,
          "a cluster is needed: -c dgx-h100:nodes=2, or a cluster file");
  require(arguments.global_batch > 0, ErrorCode::kUsage,
          "--global-batch must be a positive number of samples, not {}", arguments.global_batch);
  Job job;
  job.model = load_any_model(arguments.plan_or_model);
  job.cluster = load_cluster(arguments.cluster);
  job.global_batch = arguments.global_batch;
  job.sequence = asked_sequence(job.model, arguments.sequence);
  job.dtype = arguments.dtype.empty() ? own_dtype(job.model).value_or(compute_dtype(job.cluster))
                                      : parse_dtype(arguments.dtype);
  if (!arguments.optimizer.empty()) job.optimizer = parse_optimizer(arguments.optimizer);
  return job;
}

std::vector<std::string> assumptions_of(const Job& job) {
  std::vector<std::string> assumptions = planning_assumptions(job.model);
  if (const auto stand_in = stand_in_of(job.cluster.device))
    assumptions.push_back(
        fmt::format("nobody described the devices of {}: {} stands in, with {} of memory and its "
                    "speeds (`sextant cluster import FILE --base CLUSTER` gives others)",
                    job.cluster.name, *stand_in, to_text(job.cluster.device.memory)));
  return assumptions;
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

std::int64_t asked_sequence(const AnyModel& model, std::optional<std::int64_t> asked) {
  const std::int64_t sequence = asked.value_or(default_sequence(model));
  require(sequence > 0, ErrorCode::kUsage, "--seq must be positive, a number of tokens, not {}",
          sequence);
  require_sequence(model, sequence);
  return sequence;
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
  return planned;
}

namespace {

LogicalGraph training_graph(const Job& job, const AnyModel& model, const Strategy& strategy) {
  return make_training_graph(
      build_graph(model, strategy.dp * strategy.micro_batch, job.sequence, job.dtype), strategy,
      job.optimizer);
}

// The training graph of a decoder with so many blocks that is else the job's.
LogicalGraph shorter_graph(const Job& job, const Strategy& strategy, int blocks) {
  ModelConfig model = std::get<ModelConfig>(job.model);
  model.layers = blocks;
  return training_graph(job, model, strategy);
}

}  // namespace

LogicalGraph training_graph(const Job& job, const Strategy& strategy) {
  return training_graph(job, job.model, strategy);
}

namespace {

LogicalGraph graph_of_plan(const PlannedJob& planned) {
  return training_graph(planned.job, planned.plan.strategy);
}

}  // namespace

StagedGraph staged_graph(const PlannedJob& planned) {
  const Strategy& strategy = planned.plan.strategy;
  return make_staged_graph(graph_of_plan(planned), strategy,
                           num_micro_batches(strategy, planned.plan.global_batch),
                           planned.network.get(), planned.cost.get());
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
                            *planned.cost, *planned.network, options);
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
  const auto remedies = memory_remedies(problem, planned.plan.strategy, make_search_models(problem),
                                        memory.needed(), memory.capacity);
  const Bytes beside = total(memory.libraries);
  refuse_size(graph, memory.program, beside,
              fmt::format("libraries {}: {}", to_text(beside), to_text(memory.libraries)),
              memory.capacity, remedy_texts(remedies, memory.needed()));
}

SearchProblem search_problem(const Job& job) {
  SearchProblem problem;
  problem.training_graph = [&job](const Strategy& strategy) {
    return training_graph(job, strategy);
  };
  if (std::holds_alternative<ModelConfig>(job.model))
    problem.shorter_graph = [&job](const Strategy& strategy, int blocks) {
      return shorter_graph(job, strategy, blocks);
    };
  problem.global_batch = job.global_batch;
  problem.cluster = &job.cluster;
  problem.compute_dtype = job.dtype;
  problem.pins = words_of(job.model);
  return problem;
}

double model_flops_per_step(const Job& job) {
  return model_flops_per_sample(job.model, job.sequence) * static_cast<double>(job.global_batch);
}

std::optional<double> mfu(const Job& job, double step_time_s, std::int64_t devices) {
  if (!has_peak(job.cluster, job.dtype) || step_time_s <= 0) return std::nullopt;
  const double peak = peak_of(job.cluster.device, job.dtype).flops_per_second.value;
  return model_flops_per_step(job) / (step_time_s * static_cast<double>(devices) * peak);
}

}  // namespace sextant
