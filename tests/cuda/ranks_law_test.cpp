// The numerics law on ranks that share one GPU: whatever legal plan the compiler makes of a model,
// its losses, gradients, parameters and states are those of one CPU rank, in f64.
#include "backends/cuda/cuda_backend.h"
#include "core/error.h"
#include "tests/conformance/law_generator.h"
#include "tests/conformance/law_models.h"
#include "tests/conformance/law_runner.h"
#include "tests/cuda/gpu.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <string>

namespace sextant::ranks_law_test {
namespace {

constexpr std::uint64_t kSeed = 20261129;
constexpr std::int64_t kPlans = 60;
constexpr std::int64_t kMostRanks = 16;

TrainingResult train_on_gpu(const LawPlan& plan, const TrainingCase& training,
                            const PhysicalGraph& graph) {
  CudaWorldOptions options;
  options.each.seed = plan.seed;
  options.each.host_visible = true;  // its state is read
  options.gpus = {0};
  options.ranks_per_gpu = static_cast<int>(kMostRanks);
  CudaWorld world(graph, options);
  return train_on(
      world.devices(),
      [&](Rank rank, InstanceId instance, std::int32_t reg) {
        return world.read_register(rank, instance, reg);
      },
      training, graph);
}

}  // namespace

TEST_CASE("random plans of 2 to 16 ranks on one GPU train as one CPU rank does" *
          doctest::skip(!has_gpu())) {
  LawRunner runner(train_on_gpu);
  std::int64_t executed = 0;
  for (std::uint64_t index = 0; executed < kPlans && index < 10 * kPlans; ++index) {
    LawPlan plan = draw_plan(kSeed, index);
    plan.dtype = DType::kF64;
    const std::int64_t ranks = plan.strategy.ranks();
    // A sign that rounding changes is another gradient of relu.
    if (ranks < 2 || ranks > kMostRanks || law_model(plan.model).has_kinks) continue;
    const std::string line = to_line(plan);
    CAPTURE(line);
    const LawReport report = runner.run(plan);
    if (report.outcome == LawReport::Outcome::kRefused) continue;
    ++executed;
    CHECK_MESSAGE(report.outcome == LawReport::Outcome::kHolds, report.reason);
  }
  CHECK(executed == kPlans);
}

}  // namespace sextant::ranks_law_test
