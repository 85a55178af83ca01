// nccl-tests: made from closed forms, so what calibration must find is known.

#include "core/base/error.h"
#include "simulator/cluster_files/cluster_file.h"
#include "simulator/cluster_files/cluster_import.h"
#include "simulator/costs/models.h"
#include "tests/simulator/clusters/import_samples.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <vector>

namespace sextant::nccl_tests_import_test {
namespace {

using namespace testing;

double fixed_of(const CollectiveAlgorithm& algorithm, double steps) {
  return algorithm.base_latency.value + steps * algorithm.step_latency.value;
}

// Bus bandwidth of a ring is its rate: 360 of the 450 GB/s of NVLink 4 are 80 %.
TEST_CASE("nccl-tests calibrate the efficiency and the fixed time of the link they used") {
  const ImportedCluster imported = import_cluster(text_of({}), "ar.json");
  const NetworkLink& link = imported.cluster.intra_node;
  CHECK(imported.cluster.device.name == "H100-SXM5-80GB");
  CHECK(link.name == "nvlink4");
  std::vector<CollectiveAlgorithm> found;
  for (const CollectiveAlgorithm& algorithm : link.algorithms)
    if (algorithm.primitive == "all_reduce") found.push_back(algorithm);
  REQUIRE(found.size() == 1);
  CHECK(found[0].name == "ring");
  CHECK(found[0].protocol == "simple");
  CHECK(found[0].efficiency.value == doctest::Approx(0.8).epsilon(1e-3));
  CHECK(fixed_of(found[0], 14) == doctest::Approx(20e-6).epsilon(1e-3));
  CHECK(found[0].efficiency.provenance == Provenance::kCalibrated);
  CHECK(found[0].efficiency.source.find("all_reduce_perf on 8 ranks") != std::string::npos);
  CHECK(has_note(imported, "calibrated by 31 sizes, 0.0 % at worst"));
}

// 1 GiB: 20 us and 2 x 7/8 GiB at 360 GB/s; all other sizes alike. No built-in way is left to win.
TEST_CASE("the network model of a calibrated link says what was measured") {
  const Cluster cluster = import_cluster(text_of({}), "ar.json").cluster;
  const auto network = make_network_model(cluster);
  Communication communication;
  communication.primitive = Primitive::kAllReduce;
  CollectiveCost cost;
  cost.communication = &communication;
  std::vector<Rank> members;
  for (int i = 0; i < 8; ++i) members.emplace_back(i);
  cost.members = members;
  for (const std::int64_t bytes : {std::int64_t{8}, std::int64_t{1} << 20, std::int64_t{1} << 30}) {
    cost.global_bytes = Bytes(bytes);
    const double wanted = 20e-6 + static_cast<double>(bytes) * 1.75 / 360e9;
    CHECK(to_seconds(network->duration(cost)) == doctest::Approx(wanted).epsilon(0.002));
  }
}

TEST_CASE("two protocols of nccl-tests become two algorithms, of which the faster counts") {
  MadeTest test;
  test.quick_fixed = 8e-6;
  test.quick_bus = 20e9;
  const Cluster cluster = import_cluster(text_of(test), "ar.json").cluster;
  std::vector<CollectiveAlgorithm> found;
  for (const CollectiveAlgorithm& algorithm : cluster.intra_node.algorithms)
    if (algorithm.primitive == "all_reduce") found.push_back(algorithm);
  REQUIRE(found.size() == 2);
  CHECK(found[0].protocol == "ll");
  CHECK(found[0].efficiency.value == doctest::Approx(20.0 / 450).epsilon(0.02));
  CHECK(fixed_of(found[0], 14) == doctest::Approx(8e-6).epsilon(0.02));
  CHECK(found[1].protocol == "simple");
  CHECK(found[1].efficiency.value == doctest::Approx(0.8).epsilon(0.02));
  test.environment = "\"NCCL_PROTO=LL128\",\"NCCL_ALGO=Ring\"";
  const auto forced = import_cluster(text_of(test), "ar.json").cluster.intra_node.algorithms;
  CHECK(forced.back().protocol == "ll128");
}

// 480 GB/s of bus bandwidth over links of 450: the switch added. (1 + 1/8) S / B, from
// S / t = 480 * 8 / 14 GB/s.
TEST_CASE("an all_reduce faster than a ring can be was the switch's") {
  MadeTest test;
  test.bus = 480e9;
  const auto algorithms = import_cluster(text_of(test), "ar.json").cluster.intra_node.algorithms;
  CHECK(algorithms.back().name == "nvls");
  CHECK(algorithms.back().efficiency.value ==
        doctest::Approx(1.125 * (480e9 * 8 / 14) / 450e9).epsilon(1e-3));
  test.bus = 4800e9;
  check_refused(text_of(test), "the base's bandwidth is not that of this machine");
}

TEST_CASE("nccl-tests over several hosts calibrate the link between nodes") {
  MadeTest test;
  test.processes = 16;
  test.gpus = 1;
  test.hosts = 2;
  test.factor = 2.0 * 15 / 16;
  test.bus = 320e9;  // of 8 x 50 GB/s
  const Cluster cluster = import_cluster(text_of(test), "ar.json").cluster;
  CHECK(cluster.nodes == 2);
  CHECK(cluster.inter_node.algorithms.back().efficiency.value ==
        doctest::Approx(0.8).epsilon(1e-3));
  const Cluster base = load_cluster("dgx-h100:nodes=4"), small = load_cluster("dgx-h100:nodes=1");
  CHECK(import_cluster(text_of(test), "ar.json", &base).cluster.nodes == 4);
  CHECK_THROWS_WITH_AS(import_cluster(text_of(test), "ar.json", &small),
                       doctest::Contains("the base has 1 x 8"), Error);
}

TEST_CASE("nccl-tests that say nothing usable are refused by key") {
  const std::string good = text_of({});
  check_refused(replaced(good, "\"time\":20", "\"time\":\"nan\",\"was\":20"),
                "results[0].out_of_place.time");
  check_refused(replaced(good, "\"time\":20", "\"time\":0,\"was\":20"),
                "results[0].out_of_place.time");
  check_refused(replaced(good, "\"time\":20", "\"cpu_time\":20"), "out_of_place.cpu_time");
  check_refused(replaced(good, "all_reduce_perf", "gather_perf"),
                "args[0]: 'gather_perf' is none of");
  check_refused(replaced(good, "\"ngpus\":8", "\"ngpus\":4"), "wanted 1.5 for this many ranks");
  check_refused(replaced(good, "\"ngpus\":8", "\"ngpus\":1"), "config: one rank");
  check_refused(replaced(good, "\"version\":2", "\"version\":7"), "version: found 7");
  check_refused(replaced(good, "NVIDIA H100 80GB HBM3", "Mystery"), "'Mystery' has no built-in");
  check_refused(replaced(good, "\"size\":16", "\"size\":4"), "is smaller than the one before");
  check_refused(replaced(good, "\"SHELL=bash\"", "\"NCCL_PROTO=Fast\""), "NCCL_PROTO is 'fast'");
}

}  // namespace
}  // namespace sextant::nccl_tests_import_test
