// Cluster files: what is read is what was written, and what cannot be meant is refused by key.

#include "simulator/cluster_file.h"

#include "core/error.h"
#include "core/fused_kinds.h"
#include "simulator/models.h"

#include <doctest/doctest.h>

#include <string>

namespace sextant {
namespace {

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

const std::string kByHand = R"({
  "name": "lab", "nodes": 2, "devices_per_node": 4,
  "device": {
    "name": "card", "memory": "16GiB",
    "peaks": [{"dtype": "bf16", "flops_per_second": "120.5TFLOP/s"}],
    "memory_bandwidth": {"value": "1.5TB/s", "provenance": "measured", "source": "cluster bench"},
    "matmul_efficiency": "75%", "memory_efficiency": 0.5,
    "launch_overhead": "4us", "kernel_overhead": 1e-6
  },
  "intra_node": {"name": "bus", "bandwidth": "25GB/s", "latency": "1.5us"},
  "inter_node": {"name": "net", "bandwidth": "12.5 GB/s", "latency": "10us", "efficiency": 0.9}
})";

void check_refused(const std::string& text, const char* message) {
  try {
    cluster_from_json(text, "lab.json");
    FAIL("accepted: " << message);
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::kBadInput);
    CHECK(std::string(error.what()).find("lab.json") != std::string::npos);
    CHECK_MESSAGE(std::string(error.what()).find(message) != std::string::npos, error.what());
  }
}

TEST_CASE("units in a cluster file mean what they say") {
  const Cluster cluster = cluster_from_json(kByHand, "lab.json");
  CHECK(cluster.num_devices() == 8);
  CHECK(cluster.device.memory == Bytes(std::int64_t{16} << 30));
  CHECK(cluster.device.peaks.at(0).flops_per_second.value == 120.5e12);
  CHECK(cluster.device.memory_bandwidth.value == 1.5e12);
  CHECK(cluster.device.memory_bandwidth.provenance == Provenance::kMeasured);
  CHECK(cluster.device.memory_bandwidth.source == "cluster bench");
  CHECK(cluster.device.matmul_efficiency.value == 0.75);
  CHECK(cluster.device.matmul_efficiency.provenance == Provenance::kAssumed);
  CHECK(cluster.device.launch_overhead.value == 4e-6);
  CHECK(cluster.intra_node.latency.value == 1.5e-6);
  CHECK(cluster.inter_node.bandwidth.value == 12.5e9);
  CHECK(cluster.intra_node.efficiency.value == 1.0);
  CHECK(cluster.node_of(Rank(3)) == 0);
  CHECK(cluster.node_of(Rank(4)) == 1);
}

TEST_CASE("writing and reading a cluster changes nothing") {
  for (const std::string& name : builtin_cluster_names()) {
    CAPTURE(name);
    const std::string text = to_json_text(load_cluster(name));
    CHECK(to_json_text(cluster_from_json(text, name)) == text);
  }
  const std::string text = to_json_text(cluster_from_json(kByHand, "lab.json"));
  CHECK(to_json_text(cluster_from_json(text, "again")) == text);
}

TEST_CASE("every built-in cluster is valid and says where each number comes from") {
  for (const std::string& name : builtin_cluster_names()) {
    CAPTURE(name);
    const Cluster cluster = load_cluster(name);
    CHECK(validate(cluster).empty());
    for (const PeakRate& peak : cluster.device.peaks) CHECK(!peak.flops_per_second.source.empty());
    CHECK(!cluster.device.memory_bandwidth.source.empty());
    CHECK(!cluster.device.matmul_efficiency.source.empty());
    CHECK(!cluster.intra_node.bandwidth.source.empty());
  }
}

TEST_CASE("a built-in cluster takes its size after a colon") {
  CHECK(load_cluster("dgx-h100:nodes=128").num_devices() == 1024);
  CHECK(load_cluster("dgx-a100").num_devices() == 8);
  CHECK(load_cluster("cpu:ranks=3").num_devices() == 3);
}

// Two cores for four ranks: half of every rate, and the source says so. A core to spare changes
// nothing.
TEST_CASE("cpu ranks that share cores get their share of every rate") {
  const Cluster own = load_cluster("cpu:ranks=4"), shared = load_cluster("cpu:ranks=4,cores=2");
  const auto half = [](const Sourced& whole, const Sourced& part) {
    return part.value * 2 == whole.value &&
           part.source.find("2 cores for 4 ranks") != std::string::npos;
  };
  CHECK(half(own.device.peaks.at(0).flops_per_second, shared.device.peaks.at(0).flops_per_second));
  CHECK(half(own.device.memory_bandwidth, shared.device.memory_bandwidth));
  CHECK(half(own.intra_node.bandwidth, shared.intra_node.bandwidth));
  CHECK(to_json_text(load_cluster("cpu:ranks=4,cores=8")) == to_json_text(own));
}

TEST_CASE("published figures are those of the data sheets") {
  const Cluster h100 = load_cluster("dgx-h100");
  CHECK(h100.device.peaks.at(0).flops_per_second.value == 989.4e12);
  CHECK(h100.device.memory_bandwidth.value == 3.35e12);
  CHECK(h100.device.memory == Bytes(80'000'000'000));
  CHECK(h100.intra_node.bandwidth.value == 450e9);
  CHECK(h100.inter_node.bandwidth.value == 50e9);
  CHECK(h100.intra_node.bandwidth.provenance == Provenance::kPublished);
  CHECK(h100.device.matmul_efficiency.provenance == Provenance::kAssumed);
  const Cluster a100 = load_cluster("dgx-a100");
  CHECK(a100.device.peaks.at(0).flops_per_second.value == 312e12);
  CHECK(a100.device.memory_bandwidth.value == 2.039e12);
  CHECK(load_cluster("v100x8").device.memory == Bytes(16'000'000'000));
}

TEST_CASE("names and settings that do not exist are refused with what does") {
  const auto refused = [](const char* argument, const char* message) {
    CAPTURE(argument);
    CHECK_THROWS_WITH_AS(load_cluster(argument), doctest::Contains(message), Error);
  };
  refused("dgx-h10", "did you mean 'dgx-h100'");
  refused("dgx-h100:ranks=4", "wanted 'dgx-h100:nodes=N'");
  refused("dgx-h100:nodes=0", "'0'");
  refused("dgx-h100:nodes=-3", "'-3'");
  refused("cpu:ranks=two", "'two'");
  refused("cpu:ranks=4,core=2", "wanted 'cpu:ranks=N,cores=N'");
  refused("cpu:ranks=4,cores=0", "'0'");
  refused("no/such/file.json", "no/such/file.json");
}

TEST_CASE("a device says which fused kinds it has, and only kinds that exist") {
  const auto with = [](const std::string& fused) {
    return replaced(kByHand, "\"kernel_overhead\": 1e-6",
                    "\"kernel_overhead\": 1e-6, \"fused\": " + fused);
  };
  CHECK(cluster_from_json(kByHand, "lab.json").device.fused.empty());
  const Cluster cluster = cluster_from_json(with("[\"silu_mul\", \"bias_gelu\"]"), "lab.json");
  CHECK(cluster.device.fused == std::vector<std::string>{"bias_gelu", "silu_mul"});
  CHECK(cluster_from_json(to_json_text(cluster), "again").device.fused == cluster.device.fused);
  CHECK(make_roofline(cluster, DType::kBF16)->fuses("silu_mul"));
  CHECK_FALSE(make_roofline(cluster, DType::kBF16)->fuses("cast_scale"));
  check_refused(with("[\"bias_gelo\"]"), "did you mean 'bias_gelu'");
  check_refused(with("[\"bias_gelu\", \"bias_gelu\"]"),
                "device.fused[1]: 'bias_gelu' is listed twice");
  CHECK(load_cluster("dgx-h100").device.fused == fused_kind_names());
  CHECK(load_cluster("cpu").device.fused.empty());
  Cluster wrong = cluster;
  wrong.device.fused = {"matmul"};
  CHECK(validate(wrong) ==
        std::vector<std::string>{"device.fused names 'matmul', which is no fused kind"});
}

TEST_CASE("zero, negative and missing numbers are refused with file and key") {
  const auto with = [](const std::string& from, const std::string& to) {
    return replaced(kByHand, from, to);
  };
  check_refused(with("\"nodes\": 2", "\"nodes\": 0"), "nodes: 0 nodes: the cluster is empty");
  check_refused(with("\"devices_per_node\": 4", "\"devices_per_node\": 0"), "devices_per_node");
  check_refused(with("\"nodes\": 2", "\"nodes\": -1"), "nodes: -1");
  check_refused(with("\"16GiB\"", "0"), "device.memory: 0 B is not above zero");
  check_refused(with("\"16GiB\"", "\"16 potatoes\""), "device.memory");
  check_refused(with("\"25GB/s\"", "0"), "intra_node.bandwidth: 0 B/s is not above zero");
  check_refused(with("\"25GB/s\"", "-25"), "intra_node.bandwidth");
  check_refused(with("\"25GB/s\"", "\"25 knots\""), "intra_node.bandwidth: '25 knots'");
  check_refused(with("\"latency\": \"1.5us\"", "\"latency\": -1"), "intra_node.latency");
  check_refused(with("\"75%\"", "1.5"), "device.matmul_efficiency");
  check_refused(with("\"memory_efficiency\": 0.5,", ""), "memory_efficiency");
  check_refused(with("[{\"dtype\": \"bf16\", \"flops_per_second\": \"120.5TFLOP/s\"}]", "[]"),
                "device.peaks: no peak rate");
  check_refused(with("\"bf16\"", "\"bf17\""), "device.peaks[0].dtype");
}

TEST_CASE("an unknown key is refused with the nearest valid one") {
  check_refused(replaced(kByHand, "\"memory_bandwidth\"", "\"memory_bandwith\""),
                "memory_bandwidth");
  check_refused(replaced(kByHand, "\"nodes\"", "\"node\""), "nodes");
  check_refused(replaced(kByHand, "\"provenance\": \"measured\"", "\"provenance\": \"measrued\""),
                "did you mean 'measured'");
}

TEST_CASE("text that is not JSON is refused with line and column") {
  check_refused("{\n  \"name\": \"x\",\n}", "3");
  check_refused("", "lab.json");
  check_refused("[]", "lab.json");
}

TEST_CASE("a cluster of one node needs no link between nodes") {
  std::string text = replaced(kByHand, "\"nodes\": 2", "\"nodes\": 1");
  const std::size_t at = text.find(",\n  \"inter_node\"");
  const Cluster cluster = cluster_from_json(text.substr(0, at) + "}", "lab.json");
  CHECK(validate(cluster).empty());
  check_refused(kByHand.substr(0, kByHand.find(",\n  \"inter_node\"")) + "}", "inter_node");
}

TEST_CASE("validate names each broken number of a cluster built by hand") {
  Cluster cluster = cluster_from_json(kByHand, "lab.json");
  cluster.nodes = 0;
  cluster.device.memory_bandwidth.value = 0;
  cluster.inter_node.efficiency.value = 1.5;
  const auto broken = validate(cluster);
  REQUIRE(broken.size() == 3);
  CHECK(broken[0] == "nodes is 0");
  CHECK(broken[1] == "device.memory_bandwidth is 0, wanted a number above zero");
  CHECK(broken[2] == "inter_node.efficiency is 1.5, wanted a number above zero and at most 1");
}

}  // namespace
}  // namespace sextant
