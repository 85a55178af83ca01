// Times of compiled plans: stepping the actors, evaluating the tape, one rank per class or all,
// give the same picoseconds. The timing tests of simulator/ hold this on graphs made by hand.
#include "compiler/expand/expand.h"
#include "compiler/training/training_graph.h"
#include "models/model.h"
#include "simulator/cluster_files/cluster_file.h"
#include "simulator/costs/models.h"
#include "simulator/modes/simulate.h"

#include <doctest/doctest.h>

#include <string>

namespace sextant::compiled_times_test {
namespace {

PhysicalGraph compiled(const std::string& text, const Cluster& cluster) {
  const Strategy strategy = parse_strategy(text);
  const ModelConfig model =
      load_model("gpt:layers=6,hidden=64,heads=4,vocab=257,seq=32");  // 257: uneven shards
  const LogicalGraph training =
      make_training_graph(build_graph(model, strategy.dp * strategy.micro_batch, 32, DType::kF32));
  const auto cost = make_roofline(cluster, DType::kF32);
  const auto network = make_alpha_beta(cluster);
  return compile(training, strategy, 12, *cost, *network);
}

// A GPT on one device of which everything is work on the compute queue.
PhysicalGraph on_one_gpu(const std::string& text, const Cluster& cluster,
                         const ExpandOptions& options = {}) {
  const Strategy strategy = parse_strategy(text);
  const ModelConfig model = load_model("gpt:layers=6,hidden=1024,heads=16,vocab=8192,seq=1024");
  const LogicalGraph training = make_training_graph(
      build_graph(model, strategy.dp * strategy.micro_batch, 1024, DType::kBF16), strategy);
  const auto cost = make_roofline(cluster, DType::kBF16);
  const auto network = make_alpha_beta(cluster);
  return compile(training, strategy, 8, *cost, *network, options);
}

Duration step_time(const PhysicalGraph& graph, const Cluster& cluster) {
  return simulate(graph, *make_roofline(cluster, DType::kBF16), *make_alpha_beta(cluster))
      .step_time;
}

// Of all acts of the phase in one step.
Duration duration_of(const PhysicalGraph& graph, const Cluster& cluster, Phase phase) {
  const auto cost = make_roofline(cluster, DType::kBF16);
  Duration total;
  for (const Instance& instance : graph.programs[ProgramId(0)].instances)
    for (const Actor& actor : graph.block_of(instance).actors)
      if (actor.phase == phase && actor.queue == QueueRole::kCompute)
        total += cost->duration(actor.work) * instance.acts_per_step;
  return total;
}

}  // namespace

// Forward is a third of forward and backward. What no gradient reads is not repeated: of a block
// the last product, 8 of 24 hidden^2 multiply-adds per token, so about 2/3 of it and attention is.
TEST_CASE("full recomputation costs the time of what it repeats, less than a third of the work") {
  const Cluster cluster = load_cluster("dgx-h100");
  const PhysicalGraph kept = on_one_gpu("micro_batch=1", cluster);
  const PhysicalGraph again = on_one_gpu("micro_batch=1 recompute=full", cluster);
  const Duration before = step_time(kept, cluster), after = step_time(again, cluster);
  // What forward no longer keeps it does not write either.
  const Duration saved =
      duration_of(kept, cluster, Phase::kForward) - duration_of(again, cluster, Phase::kForward);
  const Duration repeated = duration_of(again, cluster, Phase::kRecompute);
  CHECK(duration_of(kept, cluster, Phase::kRecompute) == Duration(0));
  const double rise = static_cast<double>((after - before).value);
  CHECK(rise == doctest::Approx(static_cast<double>((repeated - saved).value)).epsilon(0.02));
  Duration work;
  for (const Phase phase : {Phase::kForward, Phase::kInputGrad, Phase::kWeightGrad})
    work += duration_of(kept, cluster, phase);
  CHECK(rise / static_cast<double>(work.value) > 0.20);
  CHECK(rise / static_cast<double>(work.value) < 1.0 / 3);
  const Duration selective =
      step_time(on_one_gpu("micro_batch=1 recompute=selective", cluster), cluster);
  CHECK(selective > before);
  CHECK(selective < after);
}

TEST_CASE("fused operators save the traffic and the starts of what is inside them") {
  Cluster cluster = load_cluster("dgx-h100");
  const Duration fused = step_time(on_one_gpu("micro_batch=1", cluster), cluster);
  const PhysicalGraph graph = on_one_gpu("micro_batch=1", cluster, {.fusion = false});
  const Duration apart = step_time(graph, cluster);
  CHECK(fused < apart);
  cluster.device.fused.clear();
  CHECK(on_one_gpu("micro_batch=1", cluster) == graph);
}

TEST_CASE("a compiled plan takes the same time stepped or from the tape, folded or not") {
  const Cluster cluster = load_cluster("cpu:ranks=8,memory=2GiB");
  const auto cost = make_roofline(cluster, DType::kF32);
  const auto network = make_alpha_beta(cluster);
  for (const std::string text :
       {"dp=2 tp=2 pp=2 micro_batch=1", "dp=2 tp=2 pp=2 micro_batch=1 schedule=zb-h1 zero=1",
        "dp=2 pp=4 micro_batch=2 schedule=gpipe", "tp=4 pp=2 micro_batch=1 schedule=1f1b",
        "dp=4 tp=2 micro_batch=1 zero=1"}) {
    CAPTURE(text);
    const PhysicalGraph graph = compiled(text, cluster);
    REQUIRE(graph.ranks.size() == 8);
    SimulateOptions reference;
    reference.mode = SimulationMode::kStep;
    reference.folded = false;
    const Duration expected = simulate(graph, *cost, *network, reference).step_time;
    CHECK(expected > Duration(0));
    for (const SimulationMode mode : {SimulationMode::kStep, SimulationMode::kTape})
      for (const bool folded : {false, true}) {
        SimulateOptions options;
        options.mode = mode;
        options.folded = folded;
        CHECK(simulate(graph, *cost, *network, options).step_time == expected);
      }
    // Jitter is a function of rank, run and step, not of the order of evaluation.
    reference.jitter = 0.1;
    reference.seed = 7;
    SimulateOptions tape = reference;
    tape.mode = SimulationMode::kTape;
    const Duration jittered = simulate(graph, *cost, *network, reference).step_time;
    CHECK(simulate(graph, *cost, *network, tape).step_time == jittered);
    CHECK(jittered != expected);
  }
}

}  // namespace sextant::compiled_times_test
