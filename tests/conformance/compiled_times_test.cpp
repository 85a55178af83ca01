// Times of compiled plans: stepping the actors, evaluating the tape, one rank per class or all,
// give the same picoseconds. The timing tests of simulator/ hold this on graphs made by hand.
#include "compiler/expand.h"
#include "compiler/training_graph.h"
#include "models/model.h"
#include "simulator/cluster_file.h"
#include "simulator/models.h"
#include "simulator/simulate.h"

#include <doctest/doctest.h>

#include <string>

using namespace sextant;

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

}  // namespace

TEST_CASE("a compiled plan takes the same time stepped or from the tape, folded or not") {
  const Cluster cluster = load_cluster("cpu:ranks=8");
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
