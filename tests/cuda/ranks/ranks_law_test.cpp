// The numerics law on ranks of GPUs: whatever legal plan the compiler makes of a model,
// its losses, gradients, parameters and states are those of one CPU rank, in f64.
#include "core/base/error.h"
#include "tests/conformance/law/law_generator.h"
#include "tests/conformance/law/law_models.h"
#include "tests/conformance/law/law_runner.h"
#include "tests/cuda/gpu.h"
#include "tests/cuda/ranks/rank_cards.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <utility>

namespace sextant::ranks_law_test {
namespace {

constexpr std::uint64_t kSeed = 20261129;

void check_law(const RankCards& cards, std::int64_t most_ranks, std::int64_t plans,
               std::uint64_t seed) {
  LawRunner runner(
      [&](const LawPlan& plan, const TrainingCase& training, const PhysicalGraph& graph) {
        return train_on_cards(cards, training, graph, {.seed = plan.seed});
      });
  std::int64_t executed = 0;
  for (std::uint64_t index = 0; executed < plans && index < 100 * static_cast<std::uint64_t>(plans);
       ++index) {
    LawPlan plan = draw_plan(seed, index);
    // Pins may name casts that plans of another type have.
    if (std::exchange(plan.dtype, DType::kF64) != DType::kF64) plan.strategy.pins.clear();
    const std::int64_t ranks = plan.strategy.ranks();
    // A sign that rounding changes is another gradient of relu.
    if (ranks < 2 || ranks > most_ranks || law_model(plan.model).has_kinks) continue;
    const std::string line = to_line(plan);
    CAPTURE(cards.text());
    CAPTURE(line);
    const LawReport report = runner.run(plan);
    if (report.outcome == LawReport::Outcome::kRefused) continue;
    ++executed;
    CHECK_MESSAGE(report.outcome == LawReport::Outcome::kHolds, report.reason);
  }
  CHECK(executed == plans);
}

}  // namespace

TEST_CASE("random plans of 2 to 16 ranks on one GPU train as one CPU rank does" *
          doctest::skip(!has_gpu())) {
  check_law(kOneCard, 16, 60, kSeed);
}

TEST_CASE("random plans of 2 to 8 ranks on two GPUs train as one CPU rank does" *
          doctest::skip(!has_gpus(2))) {
  check_law(kTwoCards, 8, 20, kSeed + 1);
}

TEST_CASE("random plans of two ranks by NCCL train as one CPU rank does" *
          doctest::skip(!has_gpus(2))) {
  check_law(kTwoCardsNccl, 2, 15, kSeed + 2);
}

}  // namespace sextant::ranks_law_test
