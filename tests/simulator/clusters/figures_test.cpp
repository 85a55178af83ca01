// What numbers of a cluster claim: built-ins keep their claims through a file, edited ones lose
// them.
#include "simulator/clusters/figures.h"

#include "simulator/cluster_files/cluster_file.h"
#include "simulator/clusters/builtin_argument.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace sextant::figures_test {
namespace {

std::vector<std::string> claims_of(Cluster cluster) {
  std::vector<std::string> claims;
  for_each_figure(cluster, [&claims](std::string_view key, const Sourced& number) {
    claims.push_back(std::string(key) + ": " + std::string(to_string(number.provenance)) + ": " +
                     number.source);
  });
  return claims;
}

}  // namespace

TEST_CASE("what built-ins claim is believed when it comes back from a file, whatever their size") {
  std::vector<std::string> arguments = builtin_cluster_names();
  for (const char* other :
       {"dgx-a100:nodes=40,leaf=20,oversubscription=3", "hgx-h200:nodes=64,leaf=16",
        "cpu:ranks=4,cores=2", "tpu-v4:x=8,y=1,z=1", "tpu-v5p:x=2,y=2,z=1", "tpu-v5p:x=8,y=8,z=8"})
    arguments.emplace_back(other);
  for (const std::string& argument : arguments) {
    CAPTURE(argument);
    const Cluster cluster = load_cluster(argument);
    CHECK(claims_of(cluster_from_json(to_json_text(cluster), "file")) == claims_of(cluster));
  }
}

TEST_CASE("a number that is not its source's is assumed, and stays so") {
  Cluster cluster = load_cluster("dgx-a100:nodes=2");
  const Cluster original = cluster;
  cluster.device.matmul_efficiency.value = 0.9;  // calibrated: 0.725
  cluster.inter_node.bandwidth.value *= 2;       // published
  cluster.device.memory_bandwidth = {1e12, Provenance::kMeasured, "my own benchmark"};
  for (int time = 0; time < 2; ++time) {
    cluster = cluster_from_json(to_json_text(cluster), "file");
    CHECK(cluster.device.matmul_efficiency.provenance == Provenance::kAssumed);
    CHECK(cluster.device.matmul_efficiency.source ==
          "edited: " + original.device.matmul_efficiency.source + " says 0.725");
    CHECK(cluster.inter_node.bandwidth.provenance == Provenance::kAssumed);
    CHECK(cluster.device.memory_bandwidth.provenance == Provenance::kMeasured);
    CHECK(cluster.device.memory_efficiency.provenance == Provenance::kCalibrated);
  }
}

TEST_CASE("provenances are counted over devices and links") {
  const Cluster cluster = load_cluster("cpu:ranks=2");
  const auto counted = provenances_of(cluster);
  REQUIRE(counted.size() == 1);
  CHECK(to_text(counted) == std::to_string(counted.at(Provenance::kAssumed)) + " assumed");
}

}  // namespace sextant::figures_test
