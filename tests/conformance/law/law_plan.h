// One random plan of the numerics law, as a value and as the line that reproduces it.
#pragma once

#include "backends/cpu/cpu_backend.h"
#include "compiler/expand/expand.h"
#include "compiler/strategy/strategy.h"
#include "compiler/training/training_graph.h"
#include "core/base/dtype.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sextant {

struct LawPlan {
  std::string model = "gpt2";
  std::string optimizer = "adamw";
  DType dtype = DType::kF64;
  std::int64_t global_batch = 8;
  std::int64_t steps = 5;
  CpuQueueKind queues = CpuQueueKind::kInline;
  CpuKernels kernels = CpuKernels::kReference;
  std::uint64_t seed = 17;  // of weights and of stress
  std::string buckets = "default";
  ExpandOptions options;  // its schedule and buckets follow from the rest
  Strategy strategy;
  bool operator==(const LawPlan&) const = default;
};

// "model=gpt3 optimizer=adamw ... | dp=2 tp=1 ...": read . write = identity.
std::string to_line(const LawPlan& plan);
// Throws Error(kUsage) for what it does not know.
LawPlan plan_from_line(std::string_view line);

// What there is to choose from by name, the simplest first.
struct LawOptimizer {
  std::string name, text;  // of parse_optimizer
  bool is_linear = false;  // a step is proportional to its own gradient
};
const std::vector<LawOptimizer>& law_optimizers();
const LawOptimizer& law_optimizer(std::string_view name);
const std::vector<std::string>& law_buckets();
ExpandOptions expand_options(const LawPlan& plan);

}  // namespace sextant
