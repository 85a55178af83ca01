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

double seconds_of(const Cluster& cluster, Primitive primitive, double bytes, int ranks) {
  const auto network = make_network_model(cluster);
  Communication communication;
  communication.primitive = primitive;
  CollectiveCost cost;
  cost.communication = &communication;
  std::vector<Rank> members;
  for (int i = 0; i < ranks; ++i) members.emplace_back(i);
  cost.members = members;
  cost.global_bytes = Bytes(static_cast<std::int64_t>(bytes));
  return to_seconds(network->duration(cost));
}

double sum_seconds(const Cluster& cluster, double bytes, int ranks) {
  return seconds_of(cluster, Primitive::kAllReduce, bytes, ranks);
}

// 1 GiB: 20 us and 2 x 7/8 GiB at 360 GB/s; all other sizes alike. No built-in way is left to win.
TEST_CASE("the network model of a calibrated link says what was measured") {
  const Cluster cluster = import_cluster(text_of({}), "ar.json").cluster;
  for (const double bytes : {8.0, 1048576.0, 1073741824.0})
    CHECK(sum_seconds(cluster, bytes, 8) ==
          doctest::Approx(20e-6 + bytes * 1.75 / 360e9).epsilon(0.002));
}

// A link ten times slower than the built-in's: its reduce_scatter and all_gather, which nobody
// measured, are no way around the sum that was.
TEST_CASE("what was measured is what is answered, however fast the halves of the built-in are") {
  for (const double bus : {36e9, 480e9}) {
    MadeTest test;
    test.fixed = 90e-6;
    test.bus = bus;
    const Cluster cluster = import_cluster(text_of(test), "ar.json").cluster;
    for (const double bytes : {8.0, 65536.0, 1048576.0, 16777216.0, 1073741824.0}) {
      CAPTURE(bytes);
      const double wanted = 90e-6 + bytes * 1.75 / bus;
      CHECK(sum_seconds(cluster, bytes, 8) == doctest::Approx(wanted).epsilon(0.01));
      CHECK(seconds_of(cluster, Primitive::kReduceScatter, bytes, 8) > 0.49 * wanted);
      CHECK(seconds_of(cluster, Primitive::kAllGather, bytes, 8) > 0.49 * wanted);
    }
  }
}

TEST_CASE("halves that were measured are kept beside a sum that is measured later") {
  MadeTest gather;
  gather.program = "all_gather_perf";
  gather.factor = 7.0 / 8;
  gather.bus = 300e9;
  const Cluster gathers = import_cluster(text_of(gather), "ag.json").cluster;
  const Cluster both = import_cluster(text_of({}), "ar.json", &gathers).cluster;
  CHECK(seconds_of(both, Primitive::kAllGather, 1 << 28, 8) ==
        doctest::Approx(20e-6 + (1 << 28) * 7.0 / 8 / 300e9).epsilon(0.002));
  CHECK(sum_seconds(both, 1 << 28, 8) ==
        doctest::Approx(20e-6 + (1 << 28) * 1.75 / 360e9).epsilon(0.002));
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

// 16 ranks on two hosts whose rings have 8 x 50 GB/s: a tree between two nodes sends each byte once
// each way, so 470 GB/s of bus bandwidth are 470 x 16 / 30 = 251 of 400 GB/s.
TEST_CASE("sums between hosts are answered as measured, those faster than rings too") {
  for (const double bus : {320e9, 470e9}) {
    MadeTest test;
    test.processes = 16;
    test.gpus = 1;
    test.hosts = 2;
    test.factor = 2.0 * 15 / 16;
    test.fixed = 60e-6;
    test.bus = bus;
    const Cluster cluster = import_cluster(text_of(test), "ar.json").cluster;
    const CollectiveAlgorithm* found = nullptr;
    for (const CollectiveAlgorithm& algorithm : cluster.inter_node.algorithms)
      if (algorithm.primitive == "all_reduce") found = &algorithm;
    REQUIRE(found != nullptr);
    CHECK(found->name == (bus > 400e9 ? "nvls" : "ring"));
    for (const double bytes : {1024.0, 1048576.0, 67108864.0, 8589934592.0}) {
      CAPTURE(bytes);
      CHECK(sum_seconds(cluster, bytes, 16) ==
            doctest::Approx(60e-6 + bytes * test.factor / bus).epsilon(0.01));
    }
    test.bus = 1600e9;
    check_refused(text_of(test), "the base's bandwidth is not that of this machine");
    // Without multicast, trees do it.
    const Cluster ampere = load_cluster("dgx-a100:nodes=2");
    test.bus = 210e9;
    const Cluster trees = import_cluster(text_of(test), "ar.json", &ampere).cluster;
    CHECK(trees.inter_node.algorithms.back().name == "tree");
  }
}

TEST_CASE("a log of nccl-tests says what its JSON says") {
  const std::string name = "# Collective test starting: all_reduce_perf_mpi\n";
  const auto numbers_of = [](const Cluster& cluster) {
    std::vector<double> numbers;
    for (const CollectiveAlgorithm& algorithm : cluster.intra_node.algorithms)
      for (const Sourced& number :
           {algorithm.base_latency, algorithm.step_latency, algorithm.efficiency})
        numbers.push_back(number.value);
    return numbers;
  };
  const auto wanted = numbers_of(import_cluster(text_of({}), "ar.json").cluster);
  const auto same = [&](const std::string& text) {
    const ImportedCluster imported = import_cluster(text, "lab.txt");
    CHECK(imported.format == "nccl-tests");
    const auto found = numbers_of(imported.cluster);
    REQUIRE(found.size() == wanted.size());
    for (std::size_t i = 0; i < found.size(); ++i)
      CHECK(found[i] == doctest::Approx(wanted[i]).epsilon(1e-3));
  };
  const std::string log = log_of({}, name);
  same(log);
  // Without a name, the sums' factor and operation tell them; a command that was echoed too.
  same(log_of({}, ""));
  same("node$ mpirun -np 8 ./build/all_reduce_perf -b 8 -e 8G\n" + log_of({}, ""));
  // The tags of mpirun, and lines of others.
  std::string tagged = "[node0:1234] 7 more processes have sent a message\n";
  for (std::size_t at = 0; at < log.size();) {
    const std::size_t end = log.find('\n', at);
    tagged += "[1,0]<stdout>:" + log.substr(at, end - at) + "\r\n";
    at = end + 1;
  }
  same(tagged);
  const auto forced = import_cluster(
      "node0:1:1 [0] NCCL INFO NCCL_ALGO set by environment to Tree\n" + log_of({}, name),
      "lab.txt");
  bool has_tree = false;
  for (const CollectiveAlgorithm& algorithm : forced.cluster.intra_node.algorithms)
    has_tree = has_tree || (algorithm.name == "tree" && algorithm.primitive == "all_reduce" &&
                            algorithm.efficiency.source.starts_with("nccl-tests"));
  CHECK(has_tree);
}

TEST_CASE("logs of nccl-tests that say nothing usable are refused by line") {
  const std::string name = "# Collective test starting: all_reduce_perf\n";
  const std::string good = log_of({}, name);
  check_refused(good + good, "a second test: wanted the log of one");
  check_refused(replaced(good, "all_reduce_perf", "reduce_perf"), "'reduce_perf' is none of");
  check_refused(replaced(good, "  64 2 float", "  64 float"), "line 20: 12 cells, but 13 columns");
  check_refused(replaced(good, "  64 2 float", "  32 2 float"), "not larger than the one before");
  check_refused(replaced(good, "#  Rank 7", "#  Rang 7"), "wanted 1.714 for 7 ranks");
  check_refused(good.substr(0, good.find("  16 2 float")), "wanted two sizes or more");
  check_refused(good.substr(good.find("#       size")), "no line of a rank");
  MadeTest gather;
  gather.program = "all_gather_perf";
  gather.factor = 7.0 / 8;
  check_refused(log_of(gather, ""), "nothing says which test this is");
  CHECK(import_cluster(log_of(gather, "# Collective test starting: all_gather_perf\n"), "ag.txt")
            .cluster.intra_node.algorithms.back()
            .primitive == "all_gather");
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
