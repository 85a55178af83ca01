// Training with products of 8 bits: the numerics law holds with it, since a tensor has one scale
// whatever the plan, and loss follows that of wider products.
#include "compiler/training/training_graph.h"
#include "core/base/error.h"
#include "core/graphs/operator.h"
#include "tests/conformance/training/law_compare.h"
#include "tests/conformance/training/training_runs.h"
#include "tests/support/long_run.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

namespace sextant::eight_bit_training_test {
namespace {

CpuOptions cpu_of(CpuKernels kernels) { return seeded_cpu(CpuQueueKind::kInline, kernels); }

// Extents that tensor cores take, 4 ranks of tp too.
ModelConfig of_sixteens(ModelConfig config) {
  config.layers = 2;
  config.heads = 4;
  config.kv_heads = config.mlp == ModelConfig::Mlp::kSwiGlu ? 2 : 4;
  config.head_size = 8;
  config.hidden = 32;
  config.ffn = 64;
  config.vocab = 59;
  config.sequence = 8;
  return config;
}

TrainingCase case_of(const ModelConfig& model, DType dtype) {
  TrainingCase training;
  training.model = of_sixteens(model);
  training.sequence = 8;
  training.dtype = dtype;
  return training;
}

// Micro-batches of 4 samples of the whole batch, as the reference has: a scale is one of a
// micro-batch.
const char* const kPlans[] = {
    "dp=2 micro_batch=2",
    "dp=4 micro_batch=1",
    "tp=2 micro_batch=4",
    "tp=4 micro_batch=4",
    "dp=2 tp=2 micro_batch=2",
    "tp=2 micro_batch=4 sp=on",
    "dp=2 tp=2 micro_batch=2 sp=on zero=2",
    "dp=2 micro_batch=2 zero=1",
    "dp=4 micro_batch=1 zero=3",
    "dp=2 tp=2 micro_batch=2 zero=3 recompute=full",
    "pp=2 micro_batch=4 schedule=1f1b",
    "pp=2 dp=2 micro_batch=2 schedule=zb-h1 zero=2",
    "cp=2 micro_batch=4 cp_mode=a2a",
    "cp=2 micro_batch=4 cp_mode=ring recompute=selective",
};

TEST_CASE("a plan with 8-bit products trains what one device trains, to the rounding of f64") {
  for (const ModelConfig& model : {tiny_gpt(), tiny_llama()}) {
    const TrainingCase training = case_of(model, DType::kF64);
    const TrainingResult expected =
        train(training, "micro_batch=4 precision=fp8", cpu_of(CpuKernels::kReference));
    const TrainingResult wide = train(training, "micro_batch=4", cpu_of(CpuKernels::kReference));
    CHECK(distance(wide, expected).error > 1e-4);  // 8 bits are seen
    for (const std::string plan : kPlans) {
      CAPTURE(model.name);
      CAPTURE(plan);
      if (plan.find("tp=4") != std::string::npos && training.model.kv_heads < 4) continue;
      const Distance found = distance(
          train(training, plan + " precision=fp8", cpu_of(CpuKernels::kReference)), expected);
      CAPTURE(found.where);
      CHECK(found.error < kF64Bound);
    }
  }
}

TEST_CASE("pieces are of products in the model's type") {
  CHECK_THROWS_WITH_AS(
      compile_case(case_of(tiny_gpt(), DType::kF64), "tp=2 micro_batch=4 pieces=2 precision=fp8"),
      "pieces=2: no product of the model is pending over tp=2 and boxed for its readers", Error);
}

double mean(const std::vector<double>& values, std::size_t first, std::size_t count) {
  double sum = 0;
  for (std::size_t i = first; i < first + count; ++i) sum += values[i];
  return sum / static_cast<double>(count);
}

// Ten steps at a time: a step alone differs by what its few samples are.
TEST_CASE("losses with 8-bit products stay within 1 % of those without") {
  constexpr std::size_t kSteps = 10;
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    CAPTURE(to_string(dtype));
    TrainingCase training = case_of(tiny_llama(), dtype);
    training.model.hidden = 64;
    training.model.head_size = 16;
    training.model.ffn = 192;
    training.model.sequence = training.sequence = 32;
    training.model.initializer_range = 0.02;
    training.steps = is_long_run() ? 200 : 40;
    training.optimizer = OptimizerOptions();
    // As far down, in however many steps: learnt by heart, loss would be next to nothing.
    training.optimizer.learning_rate = 0.04 / static_cast<double>(training.steps);
    const auto losses_of = [&](const char* strategy) {
      return train(training, strategy, cpu_of(CpuKernels::kFast)).losses;
    };
    const std::vector<double> wide = losses_of("micro_batch=8"),
                              narrow = losses_of("micro_batch=8 precision=fp8");
    REQUIRE(narrow.size() == wide.size());
    CHECK(wide.back() < 0.9 * wide.front());
    double worst = 0;
    for (std::size_t step = 0; step < wide.size(); step += kSteps)
      worst = std::max(worst, std::abs(mean(narrow, step, kSteps) / mean(wide, step, kSteps) - 1));
    MESSAGE(to_string(dtype) << ": " << wide.front() << " -> " << wide.back() << " and "
                             << narrow.back() << ", worst of ten steps " << worst);
    CHECK(worst < 0.01);
    CHECK(worst > 0);
  }
}

TEST_CASE("what scores experts and what they compute keep the model's type") {
  ModelConfig config = of_sixteens(tiny_llama());
  config.experts = 16;
  config.top_k = 2;
  const LogicalGraph graph = make_training_graph(build_graph(config, 4, 8, DType::kBF16),
                                                 parse_strategy("micro_batch=4 precision=fp8"));
  int scores = 0, narrow = 0;
  for (const LogicalOp& op : graph.ops()) {
    CAPTURE(op.name);
    narrow += op.kind == "scaled_matmul" ? 1 : 0;
    CHECK_FALSE((op.role == OperatorRole::kBatchProduct && op.kind != "batch_matmul"));
    if (op.name.find("router") == std::string::npos || !is_product(op.role)) continue;
    CHECK(op.kind.starts_with("matmul"));
    ++scores;
  }
  CHECK(scores == 2 * 3);
  CHECK(narrow == 2 * 4 * 3);  // q, k, v and o
}

}  // namespace
}  // namespace sextant::eight_bit_training_test
