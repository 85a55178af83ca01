// What every verb and experiment begins with: a model on a cluster with a batch, by what names it.
#pragma once

#include "compiler/strategy/strategy.h"
#include "compiler/training/optimizer_options.h"
#include "core/base/dtype.h"
#include "core/costs/cluster.h"
#include "core/graphs/logical_graph.h"
#include "models/any_model.h"
#include "search/problem/candidate.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace sextant {

// How a verb may name its work: a plan file, or MODEL with cluster and strategy.
struct JobArguments {
  std::string plan_or_model = {};
  std::string cluster = {};
  std::string strategy = {};
  std::string optimizer = {};  // empty: the plan's, or the default
  std::int64_t global_batch = 0;
  std::optional<std::int64_t> sequence = {};  // none: the model's
  std::string dtype = {};                     // empty: the best the device has a rate for
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

// bf16 or f16 where the device has a matrix rate for it, else f32.
DType compute_dtype(const Cluster& cluster);

// What nobody said and a plan rests on, one line each: of the model, and devices that stand in for
// others.
std::vector<std::string> assumptions_of(const Job& job);

// Throws Error(kUsage) where no cluster or no batch is named, and what loading throws.
Job make_job(const JobArguments& arguments);
// Tokens per sample: what was asked for with --seq, else the model's own.
std::int64_t asked_sequence(const AnyModel& model, std::optional<std::int64_t> asked);

LogicalGraph training_graph(const Job& job, const Strategy& strategy);
// A strategy of this job, with the words that a graph in a file gives its tensors as pins in front.
Strategy with_words_of(const AnyModel& model, Strategy strategy);

// The job must outlive it.
SearchProblem search_problem(const Job& job);

double model_flops_per_step(const Job& job);
// Model FLOPs over what the devices could do; nothing when the device has no rate for the dtype.
std::optional<double> mfu(const Job& job, double step_time_s, std::int64_t devices);

}  // namespace sextant
