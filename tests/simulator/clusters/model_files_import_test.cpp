// Files of other simulators: ASTRA-sim, Calculon.

#include "core/base/error.h"
#include "simulator/cluster_files/cluster_file.h"
#include "simulator/cluster_files/cluster_import.h"
#include "tests/simulator/clusters/import_samples.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <vector>

namespace sextant::model_files_import_test {
namespace {

using namespace testing;

TEST_CASE("dimensions of an ASTRA-sim network are node, cluster and outer tiers") {
  if (!reads_yaml()) return;
  const Cluster cluster = import_cluster(astra_network(), "net.yml").cluster;
  constexpr double kGibi = 1073741824.0;
  CHECK(cluster.devices_per_node == 2);
  CHECK(cluster.nodes == 32);
  CHECK(cluster.intra_node.wiring == Wiring::kRing);
  CHECK(cluster.intra_node.bandwidth.value == 200 * kGibi);  // two NPUs have one cable
  CHECK(cluster.intra_node.latency.value == doctest::Approx(50e-9));
  CHECK(cluster.inter_node.wiring == Wiring::kFullyConnected);
  CHECK(cluster.inter_node.bandwidth.value == 700 * kGibi);
  REQUIRE(cluster.outer_tiers.size() == 1);
  CHECK(cluster.outer_tiers[0].nodes_per_group == 8);
  CHECK(cluster.outer_tiers[0].link.bandwidth.value == 50 * kGibi);
  const Cluster ring =
      import_cluster("topology: [Ring]\nnpus_count: [16]\nbandwidth: [50]\nlatency: [0]\n",
                     "net.yml")
          .cluster;
  CHECK(ring.intra_node.bandwidth.value == 100 * kGibi);
  CHECK(ring.nodes == 1);
}

TEST_CASE("an ASTRA-sim network that cannot be meant is refused by key") {
  if (!reads_yaml()) return;
  check_refused(replaced(astra_network(), "2, 8, 4 ]", "2, 8 ]"),
                "npus_count: 2 entries, but topology has 3");
  check_refused(replaced(astra_network(), "[ 2,", "[ 0,"), "npus_count[0]: found '0'");
  check_refused(replaced(astra_network(), "[ 2,", "[ 2.5,"), "npus_count[0]: found 2.5");
  check_refused(replaced(astra_network(), "[ 2,", "[ 9223372036854775808,"), "npus_count[0]");
  check_refused(replaced(astra_network(), "200.0", "0"),
                "bandwidth[0]: found '0', wanted a number above zero");
  check_refused(replaced(astra_network(), "200.0", ".nan"), "bandwidth[0]");
  check_refused(replaced(astra_network(), "200.0", "fast"), "bandwidth[0]: found 'fast'");
  check_refused(replaced(astra_network(), "[ 50.0, 500", "[ -1, 500"), "latency[0]: found '-1'");
  check_refused(replaced(astra_network(), "Ring", "Rings"),
                "topology[0]: unknown building block 'Rings', did");
  check_refused(replaced(astra_network(), "latency", "latencies"),
                "unknown key 'latencies', did you mean");
  check_refused(replaced(astra_network(), "latency: [ 50.0, 500.0, 2000.0 ]", ""),
                "the key 'latency' is missing");
  check_refused("topology: [ Ring\n", "lab.txt");
  check_refused("topology: *none\n", "lab.txt");
}

// ---------------------------------------------------------------- Calculon, LLMCompass

TEST_CASE("a Calculon system keeps peaks, memory, networks and what they take of a processor") {
  const std::string text = calculon_system();
  const ImportedCluster imported = import_cluster(text, "a.json");
  const Cluster& cluster = imported.cluster;
  CHECK(cluster.num_devices() == 64);
  CHECK(cluster.devices_per_node == 8);
  REQUIRE(cluster.device.peaks.size() == 1);
  CHECK(cluster.device.peaks[0].dtype == DType::kF16);
  CHECK(cluster.device.matmul_efficiency.value == 0.95);
  CHECK(cluster.device.memory_efficiency.value == 0.9);
  CHECK(cluster.device.memory == Bytes(std::int64_t{80} << 30));
  CHECK(cluster.device.compute_beside_communication.value == 0.85);
  CHECK(cluster.intra_node.efficiency.value == 0.65);
  CHECK(cluster.inter_node.latency.value == 0.00002);
  CHECK(cluster.inter_node.bandwidth.source == "a.json: networks[1].bandwidth");
  CHECK(has_note(imported, "float8"));
  CHECK(has_note(imported, "vector"));
  check_refused(replaced(text, "\"GiB\": 80", "\"GiB\": 80000000000"), "mem1.GiB");
  check_refused(replaced(text, "\"bandwidth\": 25", "\"bandwidth\": 0"), "networks[1].bandwidth");
  check_refused(replaced(text, "\"size\": 64", "\"size\": 12"), "networks[1].size: found 12");
  check_refused(replaced(text, "\"latency\": 0.00001", "\"latency\": -1"), "networks[0].latency");
  check_refused(replaced(text, "0.65", "1.65"), "networks[0].efficiency");
  check_refused(replaced(text, "float16", "int4"), "lab.txt: matrix: no dtype");
}

}  // namespace
}  // namespace sextant::model_files_import_test
