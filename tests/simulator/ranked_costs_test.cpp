// Ranks that differ: what each costs, how they fold, what is refused.

#include "simulator/costs/ranked_costs.h"

#include "core/base/error.h"
#include "simulator/cluster_files/cluster_file.h"
#include "simulator/costs/models.h"
#include "simulator/modes/simulate.h"
#include "tests/simulator/toy_pipeline.h"

#include <doctest/doctest.h>

namespace sextant::ranked_costs_test {
namespace {

Work matmul() {
  Work work;
  work.kernel = "matmul:4096x4096x4096";
  work.flops = 2.0 * 4096 * 4096 * 4096;
  work.read = work.written = Bytes(3 * 4096 * 4096 * 2);
  return work;
}

// 2 nodes of A100 between 2 of H100.
Cluster mixed() {
  Cluster cluster = load_cluster("dgx-h100:nodes=4");
  cluster.other_devices = {{1, 2, load_cluster("dgx-a100:nodes=1").device}};
  return cluster;
}

}  // namespace

TEST_CASE("a rank costs what its device costs, and a straggler more") {
  const Cluster cluster = mixed();
  const auto h100 = make_cost_model(load_cluster("dgx-h100:nodes=1"), DType::kBF16);
  const auto a100 = make_cost_model(load_cluster("dgx-a100:nodes=1"), DType::kBF16);
  const Straggler slow[] = {{Rank(9), 2.0}, {Rank(0), 1.5}, {Rank(0), 2.0}};
  const auto costs = make_ranked_costs(cluster, DType::kBF16, slow);
  const Duration on_h100 = h100->duration(matmul()), on_a100 = a100->duration(matmul());
  CHECK(costs->duration_on(Rank(7), matmul()) == on_h100);
  CHECK(costs->duration_on(Rank(8), matmul()) == on_a100);
  CHECK(costs->duration_on(Rank(23), matmul()) == on_a100);
  CHECK(costs->duration_on(Rank(24), matmul()) == on_h100);
  CHECK(costs->duration_on(Rank(9), matmul()).value ==
        doctest::Approx(2.0 * static_cast<double>(on_a100.value)));
  CHECK(costs->duration_on(Rank(0), matmul()).value ==
        doctest::Approx(3.0 * static_cast<double>(on_h100.value)));
  CHECK(costs->colour_of(Rank(1)) == costs->colour_of(Rank(31)));
  CHECK(costs->colour_of(Rank(1)) != costs->colour_of(Rank(8)));
  CHECK(costs->colour_of(Rank(9)) != costs->colour_of(Rank(8)));
}

TEST_CASE("one straggler holds up its pipeline, folded as unfolded") {
  ToyPipeline pipeline{{700'000, 1'100'000}, {1'300'000, 900'000}};
  pipeline.micro_batches = 4;
  pipeline.replicas = 4;
  pipeline.gradient_bytes = 600;
  const PhysicalGraph graph = make_toy_pipeline(pipeline);
  const Cluster cluster = load_cluster("dgx-h100:nodes=1");
  const auto network = make_alpha_beta(cluster);
  const Straggler slow[] = {{Rank(5), 17.0}};  // kernels of 2 us hide behind launches of 4 us
  const auto plain = make_ranked_costs(cluster, DType::kBF16);
  const auto held = make_ranked_costs(cluster, DType::kBF16, slow);
  SimulateOptions folded, all;
  all.folded = false;
  const Simulation before = simulate(graph, *plain, *network, folded);
  const Simulation one = simulate(graph, *held, *network, folded);
  CHECK(one.step_time == simulate(graph, *held, *network, all).step_time);
  CHECK(one.step_time > before.step_time);
  CHECK(one.ranks_simulated > before.ranks_simulated);
  CHECK(one.ranks_simulated < 8);
}

TEST_CASE("stragglers are named by rank and factor") {
  CHECK(parse_straggler("5=1.2x").rank == Rank(5));
  CHECK(parse_straggler("5=1.2x").factor == doctest::Approx(1.2));
  CHECK(parse_straggler("17=+20%").factor == doctest::Approx(1.2));
  for (const char* text : {"", "5", "=2x", "5=", "5=2", "-1=2x", "5=0x", "5=-1x", "a=2x", "5=nanx",
                           "5=+%", "99999999999=2x", "5=1e300x"})
    CHECK_THROWS_AS(parse_straggler(text), Error);
  const Straggler beyond[] = {{Rank(8), 2}};
  CHECK_THROWS_AS(make_ranked_costs(load_cluster("dgx-h100:nodes=1"), DType::kBF16, beyond), Error);
}

}  // namespace sextant::ranked_costs_test
