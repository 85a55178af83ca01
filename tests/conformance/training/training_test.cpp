// The numerics law on the whole stack: a plan changes how a model is trained, never what it learns.
// Losses, parameters and moments of every strategy equal those of one rank.
#include "core/base/check.h"
#include "core/base/counter_rng.h"
#include "tests/conformance/training/law_compare.h"
#include "tests/conformance/training/training_runs.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

namespace sextant::training_test {
namespace {

CpuOptions cpu_of(CpuQueueKind queues, CpuKernels kernels = CpuKernels::kReference) {
  return seeded_cpu(queues, kernels);
}

constexpr const char* kOneRank = "dp=1 tp=1 pp=1 micro_batch=8";

const char* const kStrategies[] = {
    "dp=4 tp=1 pp=1 micro_batch=1",
    "dp=1 tp=4 pp=1 micro_batch=4",
    "dp=2 tp=2 pp=1 micro_batch=2",
    "dp=2 tp=1 pp=2 micro_batch=1 schedule=1f1b",
    "dp=1 tp=1 pp=4 micro_batch=1 schedule=gpipe",
    "dp=1 tp=1 pp=4 micro_batch=1 schedule=1f1b",
    "dp=1 tp=1 pp=4 micro_batch=1 schedule=zb-h1",
    "dp=4 tp=1 pp=1 micro_batch=2 zero=1",
    "dp=2 tp=2 pp=2 micro_batch=1 schedule=zb-h1 zero=1",
    "dp=2 tp=2 pp=2 micro_batch=1 schedule=zb-h1 zero=1 recompute=full",
    "dp=1 tp=4 pp=1 micro_batch=4 recompute=selective",
    // Pieces of five places: 3 and 2; 2, 2 and 1; forward alone, backward and repetition too.
    "dp=1 tp=4 pp=1 micro_batch=4 pieces=2",
    "dp=2 tp=2 pp=2 micro_batch=1 schedule=zb-h1 zero=1 recompute=full pieces=3",
    // Sequence parallelism by words alone, a weight that is whole against the strategy, one that
    // two axes split, a gather that nobody needs.
    "dp=1 tp=4 pp=1 micro_batch=4 pin=layer*.residual:(B,S(1))",
    "dp=2 tp=2 pp=1 micro_batch=2 zero=1 pin=layer*.residual:(S(0),S(1)) "
    "pin=layer1.mlp.up.weight:(B,B)",
    "dp=2 tp=2 pp=2 micro_batch=1 pin=layer2.mlp.down.weight:(S(0),S(0)) "
    "pin=layer1.mlp.down[0]:(B,S(2))",
};

TrainingCase case_of(const ModelConfig& model) {
  TrainingCase training;
  training.model = model;
  return training;
}

TEST_CASE(
    "every strategy trains a tiny GPT and a tiny Llama as one rank does, on every queue kind") {
  for (const ModelConfig& model : {tiny_gpt(), tiny_llama()}) {
    CAPTURE(model.name);
    const TrainingCase training = case_of(model);
    const TrainingResult expected = train(training, kOneRank, cpu_of(CpuQueueKind::kInline));
    REQUIRE(expected.losses.size() == 3);
    for (const std::string strategy : kStrategies) {
      CAPTURE(strategy);
      for (const CpuQueueKind queues :
           {CpuQueueKind::kInline, CpuQueueKind::kAsynchronous, CpuQueueKind::kStress}) {
        CAPTURE(static_cast<int>(queues));
        const TrainingResult found = train(training, strategy, cpu_of(queues));
        CHECK(distance(found, expected).error < kF64Bound);
        CHECK(found.moved == planned_traffic_of_all(training, strategy));
      }
    }
  }
}

// The key holds the micro-batch and the place in it, so these have the same ones: two of four.
TEST_CASE("every strategy drops the same elements, so dropout trains as on one rank") {  // G34
  TrainingCase training = case_of(tiny_gpt());
  training.dropout = 0.3;
  const TrainingResult expected =
      train(training, "dp=1 tp=1 pp=1 micro_batch=4", cpu_of(CpuQueueKind::kInline));
  for (const char* strategy :
       {"dp=4 tp=1 pp=1 micro_batch=1", "dp=1 tp=4 pp=1 micro_batch=4",
        "dp=2 tp=2 pp=1 micro_batch=2 zero=1", "dp=1 tp=1 pp=4 micro_batch=4 schedule=gpipe",
        "dp=2 tp=2 pp=2 micro_batch=2 schedule=zb-h1",
        "dp=1 tp=4 pp=1 micro_batch=4 pin=layer*.residual:(B,S(1))"}) {
    CAPTURE(strategy);
    const TrainingResult found = train(training, strategy, cpu_of(CpuQueueKind::kAsynchronous));
    CHECK(distance(found, expected).error < kF64Bound);
  }
  const TrainingResult plain =
      train(case_of(tiny_gpt()), "dp=1 tp=1 pp=1 micro_batch=4", cpu_of(CpuQueueKind::kInline));
  CHECK(distance(plain, expected).error > 1e-3);
}

// Both models in every type, dropout where the model has learned positions, for runs that have to
// agree in every bit.
struct ExactCase {
  TrainingCase training;
  CpuKernels kernels = CpuKernels::kReference;
};
std::vector<ExactCase> exact_cases(const std::vector<DType>& dtypes) {
  std::vector<ExactCase> cases;
  for (const DType dtype : dtypes)
    for (const ModelConfig& model : {tiny_gpt(), tiny_llama()}) {
      TrainingCase training = case_of(model);
      training.dropout = model.name == "tiny-gpt" ? 0.3 : 0.0;
      training.dtype = dtype;
      training.steps = 2;
      cases.push_back(
          {std::move(training), dtype == DType::kF64 ? CpuKernels::kReference : CpuKernels::kFast});
    }
  return cases;
}

// The mask is drawn again from the same stream at the same act, sums are formed in the same order.
TEST_CASE("what backward recomputes has the bits that forward had, dropout included") {  // G34
  for (auto& [training, kernels] : exact_cases({DType::kF64, DType::kF32})) {
    CAPTURE(training.model.name);
    for (const std::string strategy :
         {"dp=2 tp=2 pp=1 micro_batch=2 zero=1", "dp=1 tp=4 pp=1 micro_batch=4",
          "dp=2 tp=1 pp=2 micro_batch=1 schedule=1f1b",
          "dp=1 tp=2 pp=2 micro_batch=2 schedule=zb-h1", "cp=2 micro_batch=4",
          "cp=2 tp=2 cp_mode=a2a micro_batch=4", "dp=1 tp=1 pp=2 micro_batch=2 schedule=gpipe"}) {
      CAPTURE(strategy);
      training.sequence = strategy.find("cp=") == std::string::npos ? 5 : 6;
      const TrainingResult kept = train(training, strategy, cpu_of(CpuQueueKind::kInline, kernels));
      for (const std::string recompute : {"selective", "full", "1"}) {
        CAPTURE(recompute);
        const TrainingResult again = train(
            training, strategy + " recompute=" + recompute,
            cpu_of(recompute == "full" ? CpuQueueKind::kStress : CpuQueueKind::kInline, kernels));
        CHECK(again.losses == kept.losses);
        CHECK(again.state == kept.state);
      }
    }
  }
}

TEST_CASE("fused operators leave the bits of their members") {
  for (auto& [training, kernels] : exact_cases({DType::kF64, DType::kF32, DType::kBF16})) {
    CAPTURE(training.model.name);
    for (const std::string strategy :
         {"dp=1 tp=1 pp=1 micro_batch=4", "dp=2 tp=2 pp=2 micro_batch=1 schedule=zb-h1 zero=1",
          "dp=1 tp=4 pp=1 micro_batch=4 recompute=full"}) {
      CAPTURE(strategy);
      std::int64_t fused_actors = 0;
      for (const Block& block : compile_case(training, strategy).blocks)
        for (const Actor& actor : block.actors) fused_actors += actor.members.empty() ? 0 : 1;
      CHECK(fused_actors > 0);
      const TrainingResult apart =
          train(training, strategy, cpu_of(CpuQueueKind::kInline, kernels), {.fusion = false});
      const TrainingResult together =
          train(training, strategy, cpu_of(CpuQueueKind::kStress, kernels));
      CHECK(together.losses == apart.losses);
      CHECK(together.state == apart.state);
      CHECK(together.moved == apart.moved);
    }
  }
}

TEST_CASE("what the forward pass dropped of a weight has no gradient, and the rest has one") {
  TrainingCase training = case_of(tiny_gpt());
  training.dropout = 0.3;
  training.steps = 1;
  const CpuOptions cpu = cpu_of(CpuQueueKind::kInline);
  const CounterRng mask(seed_of_act(cpu.seed, {0, 0, 0}), "positions.weight.dropout");
  const auto used = static_cast<std::size_t>(training.sequence * training.model.hidden);
  for (const char* strategy : {"dp=1 tp=1 pp=1 micro_batch=2", "dp=2 tp=2 pp=1 micro_batch=1"}) {
    CAPTURE(strategy);
    const std::vector<double> m = train(training, strategy, cpu).state.at("positions.weight.m");
    REQUIRE(m.size() > used);
    for (std::size_t i = 0; i < used; ++i) CHECK((m[i] != 0) == (mask.uniform(i) > 0.3));
  }
}

TEST_CASE("after one step every gradient is the one of one rank, to the last digits") {
  // m = (1 - beta1) g / tokens: no division by a root, so nothing is magnified.
  TrainingCase training = case_of(tiny_gpt());
  training.steps = 1;
  const TrainingResult expected = train(training, kOneRank, cpu_of(CpuQueueKind::kInline));
  CHECK(std::any_of(expected.state.begin(), expected.state.end(), [](const auto& tensor) {
    return tensor.first.ends_with(".m") && tensor.second.front() != 0;
  }));
  for (const std::string strategy : kStrategies) {
    CAPTURE(strategy);
    const TrainingResult found = train(training, strategy, cpu_of(CpuQueueKind::kAsynchronous));
    const Distance far = distance_of_gradients(found, expected);
    CAPTURE(far.where);
    CHECK(far.error < 1e-13);
  }
}

TEST_CASE("fast f32 kernels train every strategy within the bound of f32") {
  // 1e-5 sqrt(k), k about 8 x 5 x 13 terms of the longest sum.
  const double bound = 1e-5 * std::sqrt(8.0 * 5.0 * 13.0);
  TrainingCase training = case_of(tiny_gpt());
  const TrainingResult expected = train(training, kOneRank, cpu_of(CpuQueueKind::kInline));
  training.dtype = DType::kF32;
  for (const std::string strategy : kStrategies) {
    CAPTURE(strategy);
    for (const CpuQueueKind queues : {CpuQueueKind::kAsynchronous, CpuQueueKind::kStress}) {
      const TrainingResult found = train(training, strategy, cpu_of(queues, CpuKernels::kFast));
      CHECK(distance_of_losses(found, expected).error < bound);
    }
  }
}

TEST_CASE("bf16 graphs with f32 weights train within the bound of bf16") {
  // About 15 roundings of 2^-9 relative in each of 4 layers, adding up like a random walk.
  const double bound = std::sqrt(15.0 * 4.0) / 512.0;
  TrainingCase training = case_of(tiny_gpt());
  const TrainingResult expected = train(training, kOneRank, cpu_of(CpuQueueKind::kInline));
  training.dtype = DType::kBF16;
  for (const std::string strategy : {kStrategies[2], kStrategies[8]}) {
    CAPTURE(strategy);
    const TrainingResult found =
        train(training, strategy, cpu_of(CpuQueueKind::kStress, CpuKernels::kFast));
    const double error = distance_of_losses(found, expected).error;
    CHECK(error < bound);
    CHECK(error > 0.0);
    CHECK(found.moved == planned_traffic_of_all(training, strategy));
  }
}

TEST_CASE("runs repeat bit for bit, whatever the timing") {
  TrainingCase training = case_of(tiny_gpt());
  training.dtype = DType::kF32;
  const std::string strategy = "dp=2 tp=2 pp=2 micro_batch=1 schedule=1f1b";
  const TrainingResult first =
      train(training, strategy, cpu_of(CpuQueueKind::kInline, CpuKernels::kFast));
  for (const CpuQueueKind queues : {CpuQueueKind::kAsynchronous, CpuQueueKind::kStress}) {
    const TrainingResult again = train(training, strategy, cpu_of(queues, CpuKernels::kFast));
    CHECK(again.losses == first.losses);
    CHECK(again.state == first.state);
    CHECK(again.moved == first.moved);
  }
}

TEST_CASE("the loss falls") {
  TrainingCase training = case_of(tiny_gpt());
  training.dtype = DType::kF32;
  training.steps = 30;
  const TrainingResult result = train(training, "dp=2 tp=1 pp=2 micro_batch=1",
                                      cpu_of(CpuQueueKind::kAsynchronous, CpuKernels::kFast));
  CHECK(result.losses.back() < 0.8 * result.losses.front());
}

TEST_CASE("where slots lie and how long they live changes no bit") {
  TrainingCase training = case_of(tiny_llama());
  const std::string strategy = "dp=1 tp=2 pp=2 micro_batch=1 schedule=zb-h1";
  const TrainingResult expected =
      train(training, strategy, cpu_of(CpuQueueKind::kInline), {.plan_memory = false});
  for (const SlotLifetime lifetime : {SlotLifetime::kIssueOrder, SlotLifetime::kModelled}) {
    for (const bool groups : {false, true}) {
      const TrainingResult found = train(training, strategy, cpu_of(CpuQueueKind::kStress),
                                         {.slot_lifetime = lifetime, .launch_groups = groups});
      CHECK(found.losses == expected.losses);
      CHECK(found.state == expected.state);
    }
  }
}

TEST_CASE("no output in the bytes of an input changes a bit") {
  for (const ModelConfig& model : {tiny_gpt(), tiny_llama()}) {
    TrainingCase training = case_of(model);
    training.dropout = model.name == tiny_gpt().name ? 0.3 : 0.0;
    for (const CpuKernels kernels : {CpuKernels::kReference, CpuKernels::kFast}) {
      training.dtype = kernels == CpuKernels::kFast ? DType::kF32 : DType::kF64;
      const std::string strategy = "dp=1 tp=2 pp=2 micro_batch=1 schedule=1f1b";
      const TrainingResult expected =
          train(training, strategy, cpu_of(CpuQueueKind::kInline, kernels), {.in_place = false});
      const TrainingResult found =
          train(training, strategy, cpu_of(CpuQueueKind::kStress, kernels), {.in_place = true});
      CHECK(found.losses == expected.losses);
      CHECK(found.state == expected.state);
    }
  }
}

// Where lives are those of the issue order, which inline queues follow, the plan is exact.
TEST_CASE("the bytes in use never exceed the plan, and reach it to the byte, class by class") {
  for (const ModelConfig& model : {tiny_gpt(), tiny_llama()})
    for (const std::string strategy : kStrategies)
      for (const SlotLifetime lifetime : {SlotLifetime::kIssueOrder, SlotLifetime::kModelled}) {
        CAPTURE(model.name);
        CAPTURE(strategy);
        TrainingCase training = case_of(model);
        training.steps = 2;
        const PhysicalGraph graph = compile_case(training, strategy, {.slot_lifetime = lifetime});
        CpuOptions cpu = cpu_of(CpuQueueKind::kInline);
        cpu.measure_memory = true;
        const std::vector<MemoryUse> memory = train(training, graph, cpu).memory;
        REQUIRE(memory.size() == graph.ranks.size());
        Bytes reach, arena;
        for (std::size_t rank = 0; rank < memory.size(); ++rank) {
          const ArenaPlan& plan = graph.program_of(Rank(rank)).arena;
          CHECK(memory[rank].most <= plan.lower_bound);
          CHECK(memory[rank].reach <= plan.size);
          reach = std::max(reach, memory[rank].reach);
          arena = std::max(arena, plan.size);
          if (lifetime != SlotLifetime::kIssueOrder) continue;
          CHECK(memory[rank].most == plan.lower_bound);
          CHECK(memory[rank].by_class == plan.peak_by_class);
        }
        CHECK(reach == arena);
      }
}

TEST_CASE("a plan that promises too little, or of another class, differs from what is measured") {
  TrainingCase training = case_of(tiny_gpt());
  training.steps = 1;
  const std::string strategy = "dp=1 tp=1 pp=2 micro_batch=2 schedule=1f1b";
  CpuOptions cpu = cpu_of(CpuQueueKind::kInline);
  cpu.measure_memory = true;
  const ExpandOptions options{.slot_lifetime = SlotLifetime::kIssueOrder};
  const PhysicalGraph graph = compile_case(training, strategy, options);
  const ArenaPlan& plan = graph.programs[ProgramId(0)].arena;
  REQUIRE(train(training, graph, cpu).memory[0].by_class == plan.peak_by_class);
  // One frame that is live at the peak counts for another class, or states promise a piece less.
  PhysicalGraph other = graph;
  for (Block& block : other.blocks)
    for (Frame& frame : block.frames)
      if (frame.memory == MemoryClass::kGradients) frame.memory = MemoryClass::kWorkspace;
  CHECK(train(training, other, cpu).memory[0].by_class != plan.peak_by_class);
  other = graph;
  for (Block& block : other.blocks)
    for (Frame& frame : block.frames)
      if (frame.initially_full && frame.size > Bytes(kBufferAlignment))
        frame.size -= Bytes(kBufferAlignment);
  CHECK(train(training, other, cpu).memory[0].most != plan.lower_bound);
}

TEST_CASE("buckets of any size change no bit and move the same bytes") {
  const std::vector<std::pair<std::string, TrainingCase>> cases = {
      {"dp=4 micro_batch=1", case_of(tiny_gpt())},
      {"dp=2 tp=2 micro_batch=1 zero=1", case_of(tiny_llama())},
      {"dp=2 pp=2 micro_batch=1 zero=1 schedule=1f1b", case_of(tiny_gpt())}};
  for (const auto& [strategy, training] : cases) {
    CAPTURE(strategy);
    const TrainingResult alone = train(training, strategy, cpu_of(CpuQueueKind::kInline),
                                       {.buckets = {.bytes = Bytes(0), .operations = 0}});
    for (const BucketLimits limits :
         {BucketLimits{}, BucketLimits{.bytes = Bytes(4096), .operations = 3}}) {
      const TrainingResult fused =
          train(training, strategy, cpu_of(CpuQueueKind::kStress), {.buckets = limits});
      CHECK(fused.losses == alone.losses);
      CHECK(fused.state == alone.state);
      CHECK(fused.moved == alone.moved);
    }
  }
}

}  // namespace
}  // namespace sextant::training_test
