// Trains small models on the CPU under a strategy, through the whole stack, and collects what must
// not depend on the strategy: losses, parameters, every other state.
#pragma once

#include "backends/cpu/cpu_backend.h"
#include "compiler/expand/expand.h"
#include "compiler/strategy/strategy.h"
#include "compiler/training/training_graph.h"
#include "core/graphs/physical_graph.h"
#include "io/data/token_data.h"
#include "models/model.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace sextant {

// Forward graph of one micro-batch of so many samples, which are dim 0 of every input.
using ModelBuilder = std::function<LogicalGraph(std::int64_t samples, DType dtype)>;

// Learning rate and weights large enough for a few steps to move every weight visibly. Adam
// magnifies an error of a gradient that is zero by rate / epsilon: 200 here, so that rounding
// (1e-16) stays far below the bound (1e-10); with the usual 1e-8 it would be two million.
OptimizerOptions visible_steps();

struct TrainingCase {
  ModelConfig model;
  // Instead of `model` and `sequence` when given. Its inputs get the values of SyntheticHost, those
  // of `model` get tokens of which three of four follow from the one before.
  ModelBuilder build;
  std::int64_t global_batch = 8;
  std::int64_t sequence = 5;
  DType dtype = DType::kF64;
  std::int64_t steps = 3;
  double dropout = 0.0;  // of every residual sum and of the learned positions
  OptimizerOptions optimizer = visible_steps();
};

struct TrainingResult {
  std::vector<double> losses;   // per step
  std::vector<double> dropped;  // choices of experts per step; empty: none can be
  // Global tensors by name: "NAME" of a parameter, "NAME.m", "NAME.v" and "NAME.step" of Adam's
  // kind, "NAME.momentum" of descent with it, "NAME:2" for output 2 of an operator with states of
  // its own. After the first step m is the gradient times (1 - beta1) / tokens.
  std::map<std::string, std::vector<double>> state;
  std::vector<PairBytes> moved;
  std::vector<MemoryUse> memory;  // by rank, where it is measured
};

ModelConfig tiny_gpt();    // odd extents, tied embeddings
ModelConfig tiny_bert();   // an encoder of the same sizes
ModelConfig tiny_llama();  // two query heads per key head
// A tiny GPT whose matrices, embedding and head have more than the 1,024 elements below which a
// parameter stays whole, norms and biases fewer; no extent but the heads' is even.
ModelConfig odd_gpt();

LogicalGraph training_graph_of(const TrainingCase& training, const Strategy& strategy);
PhysicalGraph compile_case(const TrainingCase& training, const std::string& strategy,
                           const ExpandOptions& options = {});
// The same on other devices: what rank r would do, `ranks[r]` does.
PhysicalGraph compile_case_on(const std::vector<Rank>& ranks, const TrainingCase& training,
                              const std::string& strategy, const ExpandOptions& options = {});
// Traffic that the boxing planner counts for one step, and for all steps of the case.
std::vector<PairBytes> planned_traffic(const TrainingCase& training, const std::string& strategy);
std::vector<PairBytes> planned_traffic_of_all(const TrainingCase& training,
                                              const std::string& strategy);

// Ranks whose weights are drawn from the seed that all these tests have, so that their trainings
// can be compared; patient on a machine that does other things.
CpuOptions seeded_cpu(CpuQueueKind queues, CpuKernels kernels = CpuOptions().kernels);

// Throws Error(kVerification) when ranks that hold the same part of a tensor differ in a bit.
TrainingResult train(const TrainingCase& training, const std::string& strategy,
                     const CpuOptions& cpu, const ExpandOptions& options = {});
// The same with a graph that compile_case made.
TrainingResult train(const TrainingCase& training, const PhysicalGraph& graph,
                     const CpuOptions& cpu);

// The same on any devices, by rank and prepared; traffic and memory are left out. Bytes of
// registers are read when all is over.
using ReadRegister = std::function<std::vector<std::byte>(Rank, InstanceId, std::int32_t reg)>;
TrainingResult train_on(std::span<Device* const> devices, const ReadRegister& read,
                        const TrainingCase& training, const PhysicalGraph& graph);

// The same with the traffic of a world of ranks, on CPUs or GPUs, that was made for the graph and
// lets its registers be read.
template <typename World>
TrainingResult train_in(World& world, const TrainingCase& training, const PhysicalGraph& graph) {
  TrainingResult result = train_on(
      world.devices(),
      [&world](Rank rank, InstanceId instance, std::int32_t reg) {
        return world.read_register(rank, instance, reg);
      },
      training, graph);
  result.moved = world.moved_bytes();
  return result;
}

// Global tensors of everything that lives from step to step, as in TrainingResult::state.
std::map<std::string, std::vector<double>> collect_state(const PhysicalGraph& graph,
                                                         const ReadRegister& read);
std::map<std::string, std::vector<double>> collect_state(const PhysicalGraph& graph,
                                                         const CpuWorld& world);

}  // namespace sextant
