// Small models trained on any device, with data of their own: what they give and what is left.
#pragma once

#include "actor/protocol/device.h"
#include "actor/runtime.h"
#include "backends/cpu/cpu_backend.h"
#include "backends/cuda/cuda_backend.h"
#include "core/graphs/physical_graph.h"
#include "io/data/token_data.h"
#include "models/model.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace sextant::testing {

ModelConfig small_gpt();    // two heads of 64, tied embeddings, biases
ModelConfig small_llama();  // four query heads on two key heads of 64, rotary, SwiGLU

// One rank, `micro_batches` of two samples of 33 tokens per step.
PhysicalGraph small_training_graph(const ModelConfig& model, DType dtype,
                                   std::int64_t micro_batches = 2);

// Three of four tokens follow from the one before, so there is something to learn.
TokenData small_tokens(const ModelConfig& model);

struct SmallTraining {
  std::vector<double> losses;
  std::vector<IssueHash> issued;
  // Bytes of every state register, where the host sees the arena.
  std::map<std::string, std::vector<std::byte>> state;
};

SmallTraining train_on_cpu(const PhysicalGraph& graph, const TokenData& tokens, std::int64_t steps);
SmallTraining train_on_gpu(const PhysicalGraph& graph, const TokenData& tokens, std::int64_t steps,
                           const CudaOptions& options, const RuntimeOptions& runtime = {});

inline constexpr std::uint64_t kWeightSeed = 17;

}  // namespace sextant::testing
