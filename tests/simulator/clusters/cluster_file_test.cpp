// Cluster files: what is read is what was written, and what cannot be meant is refused by key.

#include "simulator/cluster_files/cluster_file.h"

#include "core/base/error.h"
#include "core/graphs/fused_kinds.h"
#include "simulator/clusters/builtin_argument.h"
#include "simulator/clusters/builtin_devices.h"
#include "simulator/costs/models.h"
#include "tests/support/unknown_keys.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

namespace sextant::cluster_file_test {
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
    CAPTURE(std::string(error.what()));
    CHECK(std::string(error.what()).find(message) != std::string::npos);
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

// Every field of core/costs/cluster.h, none with its default.
const std::string kAllFields = R"({
  "schema": "sextant.cluster/1", "name": "all", "nodes": 4, "devices_per_node": 4,
  "device": {
    "name": "card", "memory": 80000000000, "memory_source": "its box",
    "peaks": [{"dtype": "f16", "flops_per_second": "125TFLOP/s"}],
    "memory_bandwidth": "1.5TB/s", "matmul_efficiency": "75%", "memory_efficiency": 0.5,
    "launch_overhead": "4us", "kernel_overhead": 1e-6, "matmul_tile": 256, "matmul_units": 80,
    "compute_beside_communication": {"value": 0.9, "provenance": "measured", "source": "here"},
    "communication_beside_compute": "85%", "yardstick": "250us",
    "library_memory": {"context": "400MiB", "communicator": "0.5GiB",
                       "workspace": {"value": 33554432, "provenance": "published"}},
    "fused": ["bias_gelu"],
    "measured": {"dtype": "f16", "provenance": "calibrated", "source": "bench",
                 "kernels": [{"kernel": "copy", "flops": 0, "bytes": 12, "seconds": 2e-6}]}
  },
  "intra_node": {
    "name": "nv", "bandwidth": "150GB/s", "latency": "1.5us", "efficiency": "80%",
    "wiring": "cables",
    "cables": [{"first": 0, "second": 1, "lanes": 2}, {"first": 1, "second": 2},
               {"first": 2, "second": 3, "lanes": 3}],
    "algorithms": [{"name": "ring", "protocol": "ll128", "base_latency": "6us",
                    "step_latency": "1us", "efficiency": "70%", "primitive": "all_reduce"},
                   {"name": "tree", "protocol": "ll", "base_latency": "5us",
                    "step_latency": 0, "efficiency": 0.4, "primitive": "all_reduce", "own_copy": 0.5}]
  },
  "inter_node": {"name": "net", "bandwidth": "12.5 GB/s", "latency": "10us", "wiring": "torus",
                 "extents": [2, 1]},
  "outer_tiers": [{"nodes_per_group": 2, "link": {"name": "spine", "bandwidth": "5GB/s",
                                                  "latency": "12us", "wiring": "ring"}}],
  "other_devices": [{"first_node": 1, "num_nodes": 2, "device": {
    "name": "older", "memory": "32GiB", "peaks": [{"dtype": "f32", "flops_per_second": 15e12}],
    "memory_bandwidth": "900GB/s", "matmul_efficiency": 0.7, "memory_efficiency": 0.8,
    "launch_overhead": "5us", "kernel_overhead": "2us"}}]
})";

TEST_CASE("a key that nobody knows is refused wherever it stands in a cluster file") {
  for (const std::string& text : with_unknown_key(kAllFields)) {
    try {
      cluster_from_json(text, "all.json");
      FAIL_CHECK("accepted: " << text);
    } catch (const Error& error) {
      CHECK_MESSAGE(std::string(error.what()).find("'no_such_key'") != std::string::npos,
                    std::string(error.what()));
    }
  }
}

TEST_CASE("every field of a cluster is read, and written as it was read") {
  const Cluster cluster = cluster_from_json(kAllFields, "all.json");
  CHECK(validate(cluster).empty());
  const DeviceKind& device = cluster.device;
  CHECK(device.matmul_tile.value == 256);
  CHECK(device.compute_beside_communication.value == 0.9);
  CHECK(device.compute_beside_communication.source == "here");
  CHECK(device.communication_beside_compute.value == 0.85);
  CHECK(device.library_memory.context.value == 400.0 * (1 << 20));
  CHECK(device.library_memory.communicator.value == 512.0 * (1 << 20));
  CHECK(device.library_memory.workspace.provenance == Provenance::kPublished);
  CHECK(cluster.intra_node.wiring == Wiring::kCables);
  REQUIRE(cluster.intra_node.cables.size() == 3);
  CHECK(cluster.intra_node.cables[1].second == 2);
  CHECK(cluster.intra_node.cables[1].lanes == 1);
  CHECK(cluster.intra_node.cables[2].lanes == 3);
  REQUIRE(cluster.intra_node.algorithms.size() == 2);
  CHECK(cluster.intra_node.algorithms[0].protocol == "ll128");
  CHECK(cluster.intra_node.algorithms[0].step_latency.value == 1e-6);
  CHECK(cluster.intra_node.algorithms[1].efficiency.value == 0.4);
  CHECK(cluster.intra_node.algorithms[1].primitive == "all_reduce");
  CHECK(cluster.intra_node.algorithms[1].own_copy.value == 0.5);
  CHECK(cluster.inter_node.extents == std::vector<std::int64_t>{2, 1});
  REQUIRE(cluster.outer_tiers.size() == 1);
  CHECK(cluster.outer_tiers[0].nodes_per_group == 2);
  CHECK(cluster.outer_tiers[0].link.wiring == Wiring::kRing);
  CHECK(cluster.device_of(Rank(3)).name == "card");
  CHECK(cluster.device_of(Rank(4)).name == "older");
  CHECK(cluster.device_of(Rank(12)).name == "card");
  const std::string text = to_json_text(cluster);
  CHECK(to_json_text(cluster_from_json(text, "again")) == text);
}

TEST_CASE("parts that do not fit together are refused with file and key") {
  const auto with = [](const std::string& from, const std::string& to) {
    return replaced(kAllFields, from, to);
  };
  const std::string last = "\"first\": 2, \"second\": 3";
  check_refused(with(last, "\"first\": 2, \"second\": 1"),
                "lab.json: intra_node.cables: leave 3 without a way to 0");
  check_refused(with(last, "\"first\": 3, \"second\": 3"),
                "intra_node.cables[2]: joins 3 to itself");
  check_refused(with(last, "\"first\": 2, \"second\": 4"),
                "intra_node.cables[2]: joins 2 and 4: wanted 0 to 3");
  check_refused(with(last, "\"first\": -2, \"second\": 3"), "intra_node.cables[2].first");
  check_refused(with("\"lanes\": 3", "\"lanes\": 0"), "intra_node.cables[2].lanes: found 0");
  check_refused(with("\"lanes\": 3", "\"lanes\": 9223372036854775808"),
                "intra_node.cables[2].lanes");
  check_refused(with("\"cables\",", "\"ring\","), "intra_node.cables: are not used");
  check_refused(with("\"cables\",", "\"cable\","), "did you mean 'cables'");
  check_refused(with("[2, 1]", "[2, 2]"), "inter_node.extents: multiply to 4, wanted 2");
  check_refused(with("[2, 1]", "[2, 0]"), "inter_node.extents[1]");
  check_refused(with("[2, 1]", "[1048576, 1048576, 1048576, 1048576]"),
                "inter_node.extents: multiply to more than 1048576");
  check_refused(with("\"torus\"", "\"switch\""), "inter_node.extents: are of a torus");
  check_refused(with("\"nodes_per_group\": 2", "\"nodes_per_group\": 3"),
                "outer_tiers[0].nodes_per_group: is 3, which does not divide the 4 nodes");
  check_refused(with("\"nodes_per_group\": 2", "\"nodes_per_group\": 1"),
                "outer_tiers[0].nodes_per_group: is 1: a group of one node needs no tier");
  check_refused(with("\"nodes_per_group\": 2", "\"nodes_per_group\": 4"),
                "outer_tiers[0].nodes_per_group: is 4: all nodes are in one group");
  check_refused(with("\"5GB/s\"", "0"), "outer_tiers[0].link.bandwidth");
  check_refused(with("\"first_node\": 1", "\"first_node\": 3"),
                "other_devices[0]: has 2 nodes from node 3: wanted some of 0 to 3");
  check_refused(with("\"num_nodes\": 2", "\"num_nodes\": 0"), "other_devices[0].num_nodes");
  check_refused(with("\"900GB/s\"", "-1"), "other_devices[0].device.memory_bandwidth");
  check_refused(with("\"base_latency\": \"5us\"", "\"base_latency\": -5e-6"),
                "intra_node.algorithms[1].base_latency");
  check_refused(with("\"tree\", \"protocol\": \"ll\"", "\"ring\", \"protocol\": \"ll128\""),
                "intra_node.algorithms[1]: 'ring' with 'll128' is listed twice");
  check_refused(with("\"own_copy\": 0.5", "\"own_copy\": -0.5"),
                "intra_node.algorithms[1].own_copy");
  check_refused(with("\"all_reduce\"", "\"all_reduse\""),
                "intra_node.algorithms[0].primitive: unknown primitive 'all_reduse', did you mean");
  check_refused(with("\"tree\"", "\"trees\""), "intra_node.algorithms[1].name");
  check_refused(with("\"ll\"", "\"ll2\""), "intra_node.algorithms[1].protocol");
  check_refused(with("\"85%\"", "\"0%\""), "device.communication_beside_compute");
  check_refused(with("\"400MiB\"", "-1"), "device.library_memory.context");
}

TEST_CASE("nodes with two kinds of other devices are refused") {
  Cluster cluster = cluster_from_json(kAllFields, "all.json");
  cluster.other_devices.push_back(cluster.other_devices.front());
  cluster.other_devices.back().first_node = 2;
  CHECK(validate(cluster) ==
        std::vector<std::string>{"other_devices[1] has node 2, which other_devices[0] has too"});
  cluster.other_devices.back().first_node = 3;
  cluster.other_devices.back().num_nodes = 1;
  CHECK(validate(cluster).empty());
}

TEST_CASE("a measured table with holes is refused by its row") {
  const std::string row = "{\"kernel\": \"copy\", \"flops\": 0, \"bytes\": 12, \"seconds\": 2e-6}";
  const auto with_rows = [&row](const std::string& rows) {
    return replaced(kAllFields, row, rows);
  };
  const auto with_time = [&row](const std::string& time) { return replaced(row, "2e-6", time); };
  check_refused(with_rows(""), "device.measured.kernels: is empty");
  check_refused(with_rows(row + ", " + with_time("0")), "device.measured.kernels[1].seconds");
  check_refused(with_rows(replaced(row, ", \"seconds\": 2e-6", "")),
                "device.measured.kernels[0]: the key 'seconds' is missing");
  check_refused(with_rows(replaced(row, "\"bytes\": 12, ", "")), "the key 'bytes' is missing");
  check_refused(with_rows(with_time("null")), "device.measured.kernels[0].seconds");
  check_refused(with_rows(with_time("1e999")), "lab.json");
  check_refused(with_rows(row + ", " + with_time("2e-3")),
                "device.measured.kernels[1]: says that 'copy' takes 0.002 s, but kernels[0] says");
  const auto with_kernel = [&row](const std::string& name) {
    return replaced(row, "\"copy\"", "\"" + name + "\"");
  };
  check_refused(with_rows(with_kernel("gemm")),
                "device.measured.kernels[0].kernel: no operator has a kernel 'gemm'");
  check_refused(with_rows(with_kernel("elementwize")), "did you mean 'elementwise'");
  check_refused(with_rows(with_kernel("matmul:3x4")), "is not 'matmul:MxNxK'");
  const std::string product = with_kernel("matmul:3x4x5");
  check_refused(with_rows(product + ", " + replaced(product, "2e-6", "5e-6")),
                "device.measured.kernels[1]: says that 'matmul:3x4x5' takes");
  CHECK_NOTHROW(
      cluster_from_json(with_rows(product + ", " + replaced(product, "2e-6", "3e-6")), "lab.json"));
  // Noise is no hole: cost models take the mean.
  CHECK(cluster_from_json(with_rows(row + ", " + with_time("3e-6")), "lab.json")
            .device.measured->kernels.size() == 2);
}

TEST_CASE("a number without its unit is refused") {
  const auto with = [](const std::string& from, const std::string& to) {
    return replaced(kByHand, from, to);
  };
  check_refused(with("\"25GB/s\"", "\"25\""), "intra_node.bandwidth: '25' has no unit");
  check_refused(with("\"25GB/s\"", "\"25 GB\""), "intra_node.bandwidth: '25 GB' is not a quantity");
  check_refused(with("\"25GB/s\"", "25"), "intra_node.bandwidth: 25 B/s is no machine's");
  check_refused(with("\"1.5us\"", "\"1.5\""), "intra_node.latency: '1.5' has no unit");
  check_refused(with("\"1.5us\"", "1.5"), "intra_node.latency: 1.5 s is no machine's");
  check_refused(with("\"120.5TFLOP/s\"", "120.5"),
                "device.peaks[0].flops_per_second: 120.5 FLOP/s");
  check_refused(with("\"120.5TFLOP/s\"", "\"120.5T\""), "device.peaks[0].flops_per_second");
  check_refused(with("\"16GiB\"", "16"), "device.memory: 16 B is no machine's");
  check_refused(with("\"16GiB\"", "\"16\""), "device.memory: '16' has no unit");
  check_refused(with("\"16GiB\"", "\"16 GB/s\""), "device.memory: '16 GB/s'");
  check_refused(with("\"16GiB\"", "9223372036854775808"), "device.memory");
  check_refused(with("\"16GiB\"", "\"1e30 GB\""), "device.memory");
  check_refused(with("\"4us\"", "\"1e9s\""), "device.launch_overhead: 1000000000 s is too much");
  check_refused(replaced(kAllFields, "400MiB", "1e30GB"),
                "device.library_memory.context: 1.0000000000000001e+39 B is too much");
  check_refused(with("\"75%\"", "\"0.75\""), "device.matmul_efficiency: '0.75' has no unit");
  check_refused(with("\"25GB/s\"", "NaN"), "lab.json");
  check_refused(with("\"25GB/s\"", "1e400"), "lab.json");
  check_refused(with("\"nodes\": 2", "\"nodes\": 9223372036854775808"), "nodes");
}

// Each number that a cluster file has, with values that no machine has.
TEST_CASE("every number of a cluster file has a range, and is refused with file and key") {
  using Json = nlohmann::ordered_json;
  const Json good = Json::parse(kAllFields);
  std::int64_t numbers = 0;
  const auto check_each = [&](const std::string& path, const std::vector<Json>& values) {
    const Json::json_pointer at("/" + path);
    REQUIRE_MESSAGE(good.contains(at), path);
    for (const Json& value : values) {
      Json bad = good;
      bad[at] = value;
      CAPTURE(path);
      CAPTURE(value.dump());
      try {
        cluster_from_json(bad.dump(), "lab.json");
        FAIL_CHECK("accepted");
      } catch (const Error& error) {
        const std::string text = error.what();
        CHECK(error.code() == ErrorCode::kBadInput);
        CHECK(text.find("lab.json: ") == 0);
        CHECK(text.find(path.substr(path.find_last_of('/') + 1)) != std::string::npos);
        ++numbers;
      }
    }
  };
  const std::vector<Json> rates = {0, -1, 3.5, 1e30}, times = {-1, 5, 1e300},
                          shares = {0, -1, 1.5, 1e-30}, counts = {-1, 1.5, 1e18, 1e300},
                          sizes = {-1, 7, 1e18}, extents = {0, -1, 1.5, 1e18};
  for (const char* key :
       {"nodes", "devices_per_node", "outer_tiers/0/nodes_per_group", "other_devices/0/num_nodes",
        "inter_node/extents/0", "intra_node/cables/2/lanes"})
    check_each(key, extents);
  for (const char* key :
       {"other_devices/0/first_node", "intra_node/cables/2/first", "intra_node/cables/2/second"})
    check_each(key, {-1, 1.5, 1e18});
  for (const std::string device : {"device/", "other_devices/0/device/"}) {
    check_each(device + "memory", {0, -1, 7, 1.5, 2'000'000'000'000'000});
    check_each(device + "memory_bandwidth", rates);
    check_each(device + "peaks/0/flops_per_second", rates);
    for (const char* key : {"matmul_efficiency", "memory_efficiency"})
      check_each(device + key, shares);
    for (const char* key : {"launch_overhead", "kernel_overhead"}) check_each(device + key, times);
  }
  check_each("device/yardstick", times);
  for (const char* key : {"matmul_tile", "matmul_units"})
    check_each(std::string("device/") + key, counts);
  for (const char* key : {"compute_beside_communication", "communication_beside_compute"})
    check_each(std::string("device/") + key, shares);
  for (const char* key : {"context", "communicator", "workspace"})
    check_each(std::string("device/library_memory/") + key, sizes);
  check_each("device/measured/kernels/0/flops", {-1, 1e300});
  check_each("device/measured/kernels/0/bytes", {-1, 1.5, 1e18});
  check_each("device/measured/kernels/0/seconds", {0, -1, 1e9, 1e-300});
  for (const std::string link : {"intra_node/", "inter_node/", "outer_tiers/0/link/"}) {
    check_each(link + "bandwidth", rates);
    check_each(link + "latency", times);
  }
  check_each("intra_node/efficiency", shares);
  for (const char* key : {"base_latency", "step_latency"})
    check_each(std::string("intra_node/algorithms/1/") + key, times);
  check_each("intra_node/algorithms/1/efficiency", shares);
  check_each("intra_node/algorithms/1/own_copy", {-0.5, 1.5, 50});
  CHECK(numbers > 130);
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
  CHECK(load_cluster("gb200-nvl72:nodes=2").num_devices() == 144);
  CHECK(load_cluster("dgx1-v100").num_devices() == 32);
  CHECK(load_cluster("tpu-v5p:x=8,y=8,z=8").num_devices() == 512);
  CHECK(load_cluster("tpu-v4:z=1").intra_node.extents == std::vector<std::int64_t>{4, 4, 1});
}

TEST_CASE("leaves of a fat tree are a tier whose way up is as narrow as asked for") {
  CHECK(load_cluster("hgx-h200:nodes=64").outer_tiers.empty());
  const Cluster cluster = load_cluster("hgx-h200:nodes=64,leaf=16,oversubscription=2");
  REQUIRE(cluster.outer_tiers.size() == 1);
  CHECK(cluster.outer_tiers[0].nodes_per_group == 16);
  CHECK(cluster.outer_tiers[0].link.bandwidth.value == cluster.inter_node.bandwidth.value / 2);
  CHECK(cluster.outer_tiers[0].link.bandwidth.source.find("oversubscribed 2:1") !=
        std::string::npos);
  CHECK(validate(cluster).empty());
  CHECK(load_cluster("hgx-h200:nodes=64,oversubscription=4").outer_tiers.at(0).nodes_per_group ==
        32);
}

// 16 cables, 24 lanes between the GPUs: six at each.
TEST_CASE("each GPU of a DGX-1 has six NVLinks, and a way of at most two of them to any other") {
  const NetworkLink link = load_cluster("dgx1-v100").intra_node;
  std::vector<int> lanes(8);
  std::vector<std::vector<bool>> joined(8, std::vector<bool>(8));
  for (const Cable& cable : link.cables) {
    const auto a = static_cast<std::size_t>(cable.first),
               b = static_cast<std::size_t>(cable.second);
    lanes[a] += cable.lanes;
    lanes[b] += cable.lanes;
    joined[a][b] = joined[b][a] = true;
  }
  CHECK(lanes == std::vector<int>(8, 6));
  for (std::size_t a = 0; a < 8; ++a)
    for (std::size_t b = 0; b < 8; ++b) {
      bool near = a == b || joined[a][b];
      for (std::size_t via = 0; via < 8; ++via) near = near || (joined[a][via] && joined[via][b]);
      CHECK(near);
    }
}

// Two cores for four ranks: half of every rate, and the source says so. A core to spare changes
// nothing.
TEST_CASE("cpu ranks that share cores get their share of every rate") {
  const Cluster own = load_cluster("cpu:ranks=4,memory=1GiB"),
                shared = load_cluster("cpu:ranks=4,cores=2,memory=1GiB");
  const auto half = [](const Sourced& whole, const Sourced& part) {
    return part.value * 2 == whole.value &&
           part.source.find("2 cores for 4 ranks") != std::string::npos;
  };
  CHECK(half(own.device.peaks.at(0).flops_per_second, shared.device.peaks.at(0).flops_per_second));
  CHECK(half(own.device.memory_bandwidth, shared.device.memory_bandwidth));
  CHECK(half(own.intra_node.bandwidth, shared.intra_node.bandwidth));
  CHECK(to_json_text(load_cluster("cpu:ranks=4,cores=8,memory=1GiB")) == to_json_text(own));
}

// A third of 6,000,000 KiB is 2,048,000,000 B, between 2^30 and 2^31: steps of 2^26 = 67,108,864 B,
// of which 30 fit.
TEST_CASE("cpu ranks share what the machine has available, or have what is asked for") {
  const MemoryShare share = memory_share(
      {.total = Bytes(8'192'000'000), .available = Bytes(6'144'000'000), .limit = "/job"}, 3);
  CHECK(share.bytes == Bytes(30 * 67'108'864));
  CHECK(share.source.find("limit of control group /job, shared by 3 ranks") != std::string::npos);
  CHECK(memory_share({.total = {}, .available = Bytes(0), .limit = {}}, 3).bytes == Bytes(1));
  const Cluster asked = load_cluster("cpu:ranks=4,cores=2,memory=4GiB");
  CHECK(asked.device.memory == Bytes(std::int64_t{4} << 30));
  CHECK(asked.device.memory_source.find("memory=") != std::string::npos);
  const Cluster taken = load_cluster("cpu:ranks=1");
  CHECK(taken.device.memory_source.find("machine had available") != std::string::npos);
  CHECK(cluster_from_json(to_json_text(taken), "again").device.memory_source ==
        taken.device.memory_source);
}

TEST_CASE("published figures are those of the data sheets") {
  const Cluster h100 = load_cluster("dgx-h100");
  CHECK(h100.device.peaks.at(0).flops_per_second.value == 989.4e12);
  CHECK(h100.device.memory_bandwidth.value == 3.35e12);
  CHECK(h100.device.memory == Bytes(std::int64_t{80'998} << 20));  // 79.10 GiB
  CHECK(h100.intra_node.bandwidth.value == 450e9);
  CHECK(h100.inter_node.bandwidth.value == 50e9);
  CHECK(h100.intra_node.bandwidth.provenance == Provenance::kPublished);
  CHECK(h100.device.matmul_efficiency.provenance == Provenance::kCalibrated);
  const Cluster a100 = load_cluster("dgx-a100");
  CHECK(a100.device.peaks.at(0).flops_per_second.value == 312e12);
  CHECK(a100.device.memory_bandwidth.value == 2.039e12);
  CHECK(load_cluster("v100x8").device.memory == Bytes(16'000'000'000));
  CHECK(load_cluster("dgx1-v100").inter_node.bandwidth.value == 100e9 / 8 / 8);
  const Cluster h200 = load_cluster("hgx-h200");
  CHECK(h200.device.memory == Bytes(std::int64_t{143'156} << 20));  // 139.80 GiB
  CHECK(h200.device.memory_bandwidth.value == 4.8e12);
  const Cluster gb200 = load_cluster("gb200-nvl72");
  CHECK(gb200.devices_per_node == 72);
  CHECK(gb200.device.peaks.at(0).flops_per_second.value == 2.5e15);
  CHECK(gb200.device.memory_bandwidth.value == 8e12);
  CHECK(gb200.intra_node.bandwidth.value == 900e9);
  const Cluster torus = load_cluster("tpu-v5p");
  CHECK(torus.device.peaks.at(0).flops_per_second.value == 459e12);
  CHECK(torus.intra_node.bandwidth.value == 600e9);
  CHECK(load_cluster("tpu-v4").intra_node.bandwidth.value == 300e9);
  CHECK(load_cluster("tpu-v4:z=1").intra_node.bandwidth.value == 200e9);
}

TEST_CASE("names and settings that do not exist are refused with what does") {
  const auto refused = [](const char* argument, const char* message) {
    CAPTURE(argument);
    CHECK_THROWS_WITH_AS(load_cluster(argument), doctest::Contains(message), Error);
  };
  refused("dgx-h10", "did you mean 'dgx-h100'");
  refused("dgx-h100:ranks=4", "wanted 'dgx-h100:nodes=N,leaf=N,oversubscription=N'");
  refused("dgx-h100:nodes=48,oversubscription=2", "48 nodes of cluster 'dgx-h100' do not divide");
  refused("dgx-h100:nodes=8,leaf=8", "two or more leaves of 8");
  refused("gb200-nvl72:nodes=100000", "7200000 devices");
  refused("tpu-v5p:x=100000,y=100000,z=100000", "more than 1048576 devices");
  refused("dgx-h100:nodes=0", "'0'");
  refused("dgx-h100:nodes=2,nodes=3", "the key 'nodes' appears twice");
  refused("dgx-h100:", "nothing behind the colon");
  for (const char* text : {"dgx-h100:nodes=2,", "dgx-h100:,nodes=2",
                           "dgx-h100:nodes=", "dgx-h100:nodes", "dgx-h100:=2", "tpu-v4:x=2,,y=2"})
    refused(text, "of the form key=value");
  refused("dgx-h100:nodes=-3", "'-3'");
  refused("cpu:ranks=two", "'two'");
  refused("cpu:ranks=4,core=2", "wanted 'cpu:ranks=N,cores=N,memory=SIZE'");
  refused("cpu:memory=4", "memory '4' of cluster 'cpu' is no size");
  refused("cpu:memory=0B", "memory '0B' of cluster 'cpu' is");
  refused("cpu:memory=much", "'much'");
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

TEST_CASE("a number of NCCL is calibrated only where its source names cards of its generation") {
  struct Generation {
    const char* cluster;
    std::vector<std::string> cards;
  };
  for (const Generation& one :
       {Generation{"dgx-h100", {"H100", "H200"}}, Generation{"hgx-h200", {"H100", "H200"}},
        Generation{"dgx-a100", {"A100"}}, Generation{"v100x8", {}}, Generation{"dgx1-v100", {}},
        Generation{"gb200-nvl72", {}}}) {
    const Cluster cluster = load_cluster(one.cluster);
    for (const NetworkLink* link : {&cluster.intra_node, &cluster.inter_node})
      for (const CollectiveAlgorithm& algorithm : link->algorithms)
        for (const Sourced* number : {&algorithm.base_latency, &algorithm.step_latency,
                                      &algorithm.efficiency, &algorithm.own_copy}) {
          CAPTURE(one.cluster);
          CAPTURE(algorithm.name + " " + algorithm.protocol + " " + algorithm.primitive);
          CAPTURE(number->source);
          const auto names = [&](const std::string& card) {
            return number->source.find(card) != std::string::npos;
          };
          const bool own = std::any_of(one.cards.begin(), one.cards.end(), names);
          CHECK((number->provenance != Provenance::kCalibrated || own));
          CHECK((number->provenance == Provenance::kAssumed ||
                 number->source.find("as on") == std::string::npos));
          if (number->value != 0) CHECK(!number->source.empty());
        }
  }
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
}  // namespace sextant::cluster_file_test
