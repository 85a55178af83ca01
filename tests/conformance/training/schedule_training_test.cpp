// Schedules over virtual stages on the whole stack: in which order the chunks of a stage take turns
// changes nothing that is learned. Dry run and byte order are part of every compilation.
#include "core/base/check.h"
#include "tests/conformance/training/law_compare.h"
#include "tests/conformance/training/training_runs.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace sextant::schedule_training_test {
namespace {

CpuOptions cpu_of(CpuQueueKind queues) { return seeded_cpu(queues, CpuKernels::kReference); }

struct ChunkedCase {
  int layers;
  std::int64_t global_batch;
  std::vector<std::string> strategies;
};

// Blocks spread evenly and not, more and fewer micro-batches than stages, odd numbers of them.
const std::vector<ChunkedCase>& chunked_cases() {
  static const std::vector<ChunkedCase> cases = {
      {4,
       6,
       {"pp=2 micro_batch=1 schedule=interleaved virtual=2",
        "pp=1 micro_batch=2 schedule=interleaved virtual=3", "pp=2 micro_batch=2 schedule=zb-v",
        "pp=1 micro_batch=1 schedule=zb-v",
        "dp=3 pp=2 micro_batch=1 schedule=interleaved virtual=2 zero=1",
        "tp=2 pp=2 micro_batch=2 schedule=zb-v first_layers=2 last_layers=2"}},
      {7,
       6,
       {"pp=3 micro_batch=1 schedule=interleaved virtual=2",
        "pp=2 micro_batch=1 schedule=interleaved virtual=3",
        "dp=2 pp=3 micro_batch=1 schedule=zb-v zero=1", "pp=3 micro_batch=6 schedule=zb-v",
        "pp=3 micro_batch=2 schedule=interleaved virtual=2 first_layers=2 last_layers=3"}},
      {8,
       12,
       {"pp=4 micro_batch=1 schedule=interleaved virtual=2", "pp=4 micro_batch=4 schedule=zb-v",
        "tp=2 pp=2 micro_batch=2 schedule=interleaved virtual=3 zero=1"}}};
  return cases;
}

void check_cases(ModelConfig model) {
  for (const ChunkedCase& chunked : chunked_cases()) {
    TrainingCase training;
    model.layers = chunked.layers;
    training.model = model;
    training.global_batch = chunked.global_batch;
    const TrainingResult expected =
        train(training, fmt::format("micro_batch={}", chunked.global_batch),
              cpu_of(CpuQueueKind::kInline));
    for (const std::string& strategy : chunked.strategies) {
      CAPTURE(strategy);
      CAPTURE(chunked.layers);
      const PhysicalGraph graph = compile_case(training, strategy);
      for (const CpuQueueKind queues : {CpuQueueKind::kInline, CpuQueueKind::kStress}) {
        const Distance found = distance(train(training, graph, cpu_of(queues)), expected);
        CAPTURE(found.where);
        CHECK(found.error < kF64Bound);
      }
    }
  }
}

TEST_CASE("interleaved and ZB-V train a tiny GPT with tied embeddings as one rank does") {
  check_cases(tiny_gpt());
}

TEST_CASE("interleaved and ZB-V train a tiny Llama as one rank does") { check_cases(tiny_llama()); }

TEST_CASE("late transfers change no bit") {
  TrainingCase training;
  training.model = tiny_gpt();
  for (const std::string strategy :
       {"pp=2 micro_batch=1 schedule=interleaved virtual=2",
        "tp=2 pp=2 micro_batch=1 schedule=zb-v", "dp=2 pp=4 micro_batch=1 schedule=1f1b zero=1"}) {
    CAPTURE(strategy);
    const TrainingResult early = train(training, strategy, cpu_of(CpuQueueKind::kInline));
    const TrainingResult late = train(training, strategy, cpu_of(CpuQueueKind::kStress),
                                      {.transfer_order = TransferOrder::kLate});
    CHECK(late.losses == early.losses);
    CHECK(late.state == early.state);
    CHECK(late.moved == early.moved);
  }
}

TEST_CASE("values pass to the next virtual stage and never between chunks of one stage") {
  TrainingCase training;
  training.model = tiny_gpt();
  training.model.layers = 4;
  // An activation and a gradient cross each boundary of virtual stages, 2p - 1 of them; that in
  // the middle of zb-v lies inside stage 1.
  const auto transfers = [&](const std::string& strategy) {
    std::int64_t acts = 0;
    const PhysicalGraph graph = compile_case(training, strategy);
    for (const RankProgram& program : graph.programs)
      for (const Instance& instance : program.instances)
        for (const Actor& actor : graph.block_of(instance).actors)
          if (actor.communication && actor.communication->primitive == Primitive::kTransfer &&
              actor.communication->side == Side::kSend && instance.acts_per_step > 1)
            ++acts;
    return acts;
  };
  CHECK(transfers("pp=2 micro_batch=1") == 2);
  CHECK(transfers("pp=2 micro_batch=1 schedule=zb-v") == 2 * 2);
  CHECK(transfers("pp=2 micro_batch=1 schedule=interleaved virtual=2") == 2 * 3);
}

}  // namespace
}  // namespace sextant::schedule_training_test
