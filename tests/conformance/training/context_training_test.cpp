// Attention over split sequences on the whole stack: a strategy with cp trains as one rank does.
#include "core/base/check.h"
#include "tests/conformance/training/law_compare.h"
#include "tests/conformance/training/training_runs.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace sextant::context_training_test {
namespace {

constexpr const char* kOneRank = "dp=1 tp=1 pp=1 micro_batch=4";
TrainingCase case_of(ModelConfig model, std::int64_t heads, std::int64_t kv_heads,
                     std::int64_t sequence) {
  model.layers = 2;
  model.heads = heads;
  model.kv_heads = kv_heads;
  model.sequence = std::max(model.sequence, sequence);
  TrainingCase training;
  training.model = model;
  training.sequence = sequence;
  training.global_batch = 4;
  training.steps = 2;
  return training;
}

void check_all(const TrainingCase& training, const std::vector<std::string>& strategies) {
  const TrainingResult expected = train(training, kOneRank, seeded_cpu(CpuQueueKind::kInline));
  for (const std::string& strategy : strategies) {
    CAPTURE(strategy);
    const TrainingResult found = train(training, strategy, seeded_cpu(CpuQueueKind::kStress));
    const Distance far = distance(found, expected);
    CAPTURE(far.where);
    CHECK(far.error < kF64Bound);
    CHECK(found.moved == planned_traffic_of_all(training, strategy));
  }
}

// With dp, tp and pp of 1 or 2 each.
std::vector<std::string> combinations(const std::string& context) {
  std::vector<std::string> strategies;
  for (const int dp : {1, 2})
    for (const int tp : {1, 2})
      for (const int pp : {1, 2})
        strategies.push_back(
            fmt::format("dp={} tp={} pp={} micro_batch=1 {}", dp, tp, pp, context));
  return strategies;
}

TEST_CASE("all-to-all attention trains a GPT with learned positions as one rank does") {
  for (const int cp : {2, 3, 4}) {
    CAPTURE(cp);
    // 7 positions split unevenly over any cp.
    check_all(case_of(tiny_gpt(), 2 * cp, 2 * cp, 7),
              combinations(fmt::format("cp={} cp_mode=a2a", cp)));
  }
}

TEST_CASE("all-to-all attention trains a Llama with grouped heads and rotary positions") {
  for (const int cp : {2, 3, 4}) {
    CAPTURE(cp);
    check_all(case_of(tiny_llama(), 4 * cp, 2 * cp, 9),
              combinations(fmt::format("cp={} cp_mode=a2a", cp)));
  }
}

TEST_CASE(
    "all-to-all attention works beside ZeRO, every schedule, and with more parts than tokens") {
  check_all(case_of(tiny_llama(), 8, 4, 3),
            {"dp=2 cp=4 micro_batch=1 cp_mode=a2a zero=1",
             "dp=1 cp=2 pp=2 micro_batch=1 cp_mode=a2a schedule=zb-h1",
             "dp=1 cp=2 tp=2 pp=2 micro_batch=1 cp_mode=a2a schedule=gpipe"});
}

TEST_CASE("ring attention trains a GPT with learned positions as one rank does") {
  for (const int cp : {2, 3, 4}) {
    CAPTURE(cp);
    check_all(case_of(tiny_gpt(), 4, 4, 2 * cp), combinations(fmt::format("cp={}", cp)));
  }
}

TEST_CASE("ring attention trains a Llama with grouped heads and rotary positions") {
  for (const int cp : {2, 3, 4}) {
    CAPTURE(cp);
    check_all(case_of(tiny_llama(), 8, 2, 3 * cp), combinations(fmt::format("cp={}", cp)));
  }
}

// Chunks of one position; an odd number of heads.
TEST_CASE("ring attention works with any heads, beside ZeRO, and under every schedule") {
  check_all(case_of(tiny_gpt(), 5, 5, 4), {"cp=4 micro_batch=1", "cp=2 micro_batch=1"});
  check_all(case_of(tiny_llama(), 4, 2, 8),
            {"dp=2 cp=4 micro_batch=1 zero=1", "cp=2 pp=2 micro_batch=1 schedule=zb-h1",
             "cp=2 tp=2 pp=2 micro_batch=1 schedule=gpipe"});
}

TEST_CASE("split sequences go with every ZeRO stage and with sequence parallelism") {
  const TrainingCase training = case_of(tiny_llama(), 8, 4, 8);
  for (const char* mode : {"ring", "a2a"})
    check_all(training, {fmt::format("dp=2 cp=2 micro_batch=1 zero=2 cp_mode={}", mode),
                         fmt::format("dp=2 cp=2 tp=2 micro_batch=1 zero=3 cp_mode={}", mode),
                         fmt::format("cp=2 tp=2 micro_batch=2 sp=on cp_mode={}", mode),
                         fmt::format("cp=2 tp=2 micro_batch=2 pieces=3 cp_mode={}", mode),
                         fmt::format("cp=2 tp=2 pp=2 micro_batch=1 sp=on pieces=2 schedule=zb-h1 "
                                     "recompute=selective cp_mode={}",
                                     mode)});
}

}  // namespace
}  // namespace sextant::context_training_test
