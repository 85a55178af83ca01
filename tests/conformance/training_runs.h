// Trains small models on the CPU under a strategy, through the whole stack, and collects what must
// not depend on the strategy: losses, parameters, moments.
#pragma once

#include "backends/cpu/cpu_backend.h"
#include "compiler/expand.h"
#include "core/physical_graph.h"
#include "io/token_data.h"
#include "models/model.h"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace sextant {

struct TrainingCase {
  ModelConfig model;
  std::int64_t global_batch = 8;
  std::int64_t sequence = 5;
  DType dtype = DType::kF64;
  std::int64_t steps = 3;
  double dropout = 0.0;  // of every residual sum and of the learned positions
};

struct TrainingResult {
  std::vector<double> losses;  // per step
  // Global tensors by name: "NAME", and "NAME.m", "NAME.v" for the moments. After the first step m
  // is the gradient times (1 - beta1) / tokens.
  std::map<std::string, std::vector<double>> state;
  std::vector<PairBytes> moved;
};

ModelConfig tiny_gpt();    // odd extents, tied embeddings
ModelConfig tiny_llama();  // two query heads per key head

PhysicalGraph compile_case(const TrainingCase& training, const std::string& strategy,
                           const ExpandOptions& options = {});
// Traffic that the boxing planner counts for one step.
std::vector<PairBytes> planned_traffic(const TrainingCase& training, const std::string& strategy);

// Throws Error(kVerification) when ranks that hold the same part of a tensor differ in a bit.
TrainingResult train(const TrainingCase& training, const std::string& strategy,
                     const CpuOptions& cpu, const ExpandOptions& options = {});

}  // namespace sextant
