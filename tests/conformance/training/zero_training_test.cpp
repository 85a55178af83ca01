// ZeRO and sequence parallelism on the whole stack, with parameters large enough to be sharded:
// where state lives and when it is gathered changes nothing of what is learned.
#include "core/base/check.h"
#include "tests/conformance/training/law_compare.h"
#include "tests/conformance/training/training_runs.h"

#include <doctest/doctest.h>

#include <map>
#include <string>
#include <vector>

namespace sextant::zero_training_test {
namespace {

TrainingCase odd_case(bool tied) {
  TrainingCase training;
  training.model = odd_gpt();
  training.model.layers = 3;
  training.model.tied_embeddings = tied;
  training.global_batch = 12;
  training.steps = 2;
  return training;
}

void check_trains_alike(const TrainingCase& training, const std::string& strategy,
                        CpuQueueKind queues) {
  static std::map<bool, TrainingResult> of_one_rank;  // by whether embeddings are tied
  CAPTURE(strategy);
  const bool tied = training.model.tied_embeddings;
  if (of_one_rank.count(tied) == 0)
    of_one_rank[tied] = train(odd_case(tied), "micro_batch=12", seeded_cpu(CpuQueueKind::kInline));
  const TrainingResult found = train(training, strategy, seeded_cpu(queues));
  const Distance far = distance(found, of_one_rank[tied]);
  CAPTURE(far.where);
  CHECK(far.error < kF64Bound);
  CHECK(found.moved == planned_traffic_of_all(training, strategy));
}

TEST_CASE("every ZeRO stage trains as one rank does, over uneven shards, tp and stages") {
  for (const int zero : {0, 1, 2, 3})
    for (const int dp : {2, 3})
      for (const int tp : {1, 2})
        for (const int pp : {1, 2})
          check_trains_alike(
              odd_case(true),
              fmt::format("dp={} tp={} pp={} micro_batch=2 zero={}", dp, tp, pp, zero),
              CpuQueueKind::kAsynchronous);
}

TEST_CASE("a tied embedding has one owner under every ZeRO stage and any number of stages") {
  for (const int zero : {0, 1, 2, 3})
    for (const int pp : {2, 3})
      for (const char* schedule : {"gpipe", "1f1b", "zb-h1"})
        check_trains_alike(
            odd_case(true),
            fmt::format("dp=2 pp={} micro_batch=1 schedule={} zero={}", pp, schedule, zero),
            CpuQueueKind::kStress);
}

TEST_CASE("an untied head is gathered and reduced like any other weight") {
  for (const int zero : {2, 3})
    check_trains_alike(odd_case(false),
                       fmt::format("dp=3 tp=2 pp=2 micro_batch=1 schedule=zb-h1 zero={}", zero),
                       CpuQueueKind::kStress);
}

TEST_CASE("split sequences train as whole ones do, with and without ZeRO") {
  for (const char* strategy :
       {"tp=2 micro_batch=3 sp=on", "tp=4 micro_batch=12 sp=on",
        "dp=2 tp=2 micro_batch=1 sp=on zero=1", "dp=3 tp=2 micro_batch=2 sp=on zero=3",
        "dp=2 tp=2 pp=2 micro_batch=3 sp=on zero=2 schedule=zb-h1",
        "tp=2 pp=3 micro_batch=2 sp=on"})
    check_trains_alike(odd_case(true), strategy, CpuQueueKind::kAsynchronous);
}

TEST_CASE("G35: devices that share a key/value head train as one that has them all") {
  TrainingCase training;
  training.model = tiny_llama();  // 8 query heads, 4 key/value heads
  const TrainingResult expected =
      train(training, "micro_batch=8", seeded_cpu(CpuQueueKind::kInline));
  for (const char* strategy :
       {"tp=8 micro_batch=4", "tp=8 micro_batch=2 sp=on", "dp=2 tp=8 micro_batch=1 zero=3"}) {
    CAPTURE(strategy);
    const TrainingResult found = train(training, strategy, seeded_cpu(CpuQueueKind::kAsynchronous));
    CHECK(distance(found, expected).error < kF64Bound);
    CHECK(found.moved == planned_traffic_of_all(training, strategy));
  }
}

// Experts of 35 x 37, of which some have no place for all tokens.
TrainingCase experts_case(std::int64_t experts) {
  TrainingCase training = odd_case(false);
  training.model.mlp_bias = false;
  training.model.layers = 2;
  training.model.experts = experts;
  training.model.top_k = 2;
  training.model.capacity_factor = 1.0;
  return training;
}

TEST_CASE("spread experts train as whole ones do, beside tp, stages, ZeRO and split sequences") {
  for (const std::int64_t experts : {4, 5}) {
    const TrainingCase training = experts_case(experts);
    const TrainingResult expected =
        train(training, "micro_batch=12", seeded_cpu(CpuQueueKind::kInline));
    for (const char* strategy :
         {"dp=2 ep=2 micro_batch=3", "dp=4 ep=2 micro_batch=1", "dp=3 ep=3 micro_batch=2",
          "dp=4 ep=4 micro_batch=3 zero=1", "dp=4 ep=2 micro_batch=1 zero=2",
          "dp=4 ep=2 tp=2 micro_batch=3 zero=3", "dp=2 ep=2 tp=2 micro_batch=2 sp=on zero=3",
          "dp=2 ep=2 pp=2 micro_batch=1 zero=3 schedule=zb-h1", "dp=4 micro_batch=1 zero=3"}) {
      CAPTURE(experts);
      CAPTURE(strategy);
      const TrainingResult found =
          train(training, strategy, seeded_cpu(CpuQueueKind::kAsynchronous));
      const Distance far = distance(found, expected);
      CAPTURE(far.where);
      CHECK(far.error < kF64Bound);
      CHECK(found.moved == planned_traffic_of_all(training, strategy));
    }
  }
}

// What a library of collectives would be told to do, accumulation and launch groups included. Sums
// have one order, and so the same bits.
TEST_CASE("by scripts every kind of parallelism trains to the bits of the CPU's collectives") {
  CpuOptions by_scripts = seeded_cpu(CpuQueueKind::kAsynchronous);
  by_scripts.collectives = CpuCollectives::kScripts;
  for (const std::string strategy :
       {"dp=3 micro_batch=2 zero=2", "dp=2 tp=2 pp=2 micro_batch=1 zero=3 sp=on schedule=zb-h1",
        "dp=2 cp=2 micro_batch=2 zero=1 cp_mode=a2a", "tp=2 micro_batch=4 pieces=2"}) {
    CAPTURE(strategy);
    const TrainingResult direct =
        train(odd_case(true), strategy, seeded_cpu(CpuQueueKind::kAsynchronous));
    const TrainingResult scripted = train(odd_case(true), strategy, by_scripts);
    CHECK(scripted.losses == direct.losses);
    CHECK(scripted.state == direct.state);
    CHECK(!scripted.moved.empty());
  }
}

}  // namespace
}  // namespace sextant::zero_training_test
