// What a name leaves open is decided here: type, sequence, words of a graph's file.
#include "experiments/jobs/job.h"

#include "compiler/training/training_graph.h"
#include "core/base/check.h"
#include "core/costs/cluster.h"
#include "simulator/cluster_files/cluster_file.h"
#include "simulator/cluster_files/known_devices.h"
#include "simulator/costs/models.h"

#include <fmt/core.h>

#include <algorithm>

namespace sextant {
namespace {

bool has_peak(const Cluster& cluster, DType dtype) {
  const auto& peaks = cluster.device.peaks;
  return std::any_of(peaks.begin(), peaks.end(),
                     [dtype](const PeakRate& peak) { return peak.dtype == dtype; });
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

std::int64_t asked_sequence(const AnyModel& model, std::optional<std::int64_t> asked) {
  const std::int64_t sequence = asked.value_or(default_sequence(model));
  require(sequence > 0, ErrorCode::kUsage, "--seq must be positive, a number of tokens, not {}",
          sequence);
  require_sequence(model, sequence);
  return sequence;
}

LogicalGraph training_graph(const Job& job, const Strategy& strategy) {
  return training_graph(job, job.model, strategy);
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
