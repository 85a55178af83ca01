// Files of other programs: what is read is what they say, and the rest is said to be assumed.

#include "simulator/cluster_import.h"

#include "core/error.h"
#include "core/json_reader.h"
#include "simulator/cluster_file.h"
#include "simulator/models.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sextant {
namespace {

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

void check_refused(const std::string& text, const std::string& message) {
  try {
    import_cluster(text, "lab.txt");
    FAIL("accepted: " << message);
  } catch (const Error& error) {
    CAPTURE(std::string(error.what()));
    CHECK(error.code() == ErrorCode::kBadInput);
    CHECK(std::string(error.what()).starts_with("lab.txt"));
    CHECK(std::string(error.what()).find(message) != std::string::npos);
  }
}

bool has_note(const ImportedCluster& imported, std::string_view part) {
  for (const std::string& note : imported.notes)
    if (note.find(part) != std::string::npos) return true;
  return false;
}

// ---------------------------------------------------------------- NCCL topology

std::string gpu(int index, const std::string& nvlinks, const std::string& id = "0x2330") {
  const std::string number = std::to_string(index);
  return "<pci busid=\"0000:0" + number + ":00.0\" class=\"0x030200\" vendor=\"0x10de\" device=\"" +
         id + "\" link_speed=\"32.0 GT/s PCIe\" link_width=\"16\"><gpu dev=\"" + number +
         "\" sm=\"90\" rank=\"" + number + "\" gdr=\"1\">" + nvlinks + "</gpu></pci>";
}

std::string nvlink(const std::string& target, int count, const std::string& type) {
  return "<nvlink target=\"" + target + "\" count=\"" + std::to_string(count) + "\" tclass=\"" +
         type + "\"/>";
}

std::string to_gpu(int index, int count) {
  return nvlink("0000:0" + std::to_string(index) + ":00.0", count, "0x030200");
}

const std::string kToSwitches =
    nvlink("0000:c7:00.0", 10, "0x068000") + nvlink("0000:c8:00.0", 8, "0x068000");
const std::string kNic =
    "<pci busid=\"0000:50:00.0\" class=\"0x020700\" link_speed=\"32.0 GT/s PCIe\" "
    "link_width=\"16\">"
    "<nic><net name=\"mlx5_0\" dev=\"0\" speed=\"400000\" port=\"1\" gdr=\"1\"/></nic></pci>";

std::string system_of(const std::string& functions) {
  return "<!-- two > one -->\n<system version=\"1\">\n <cpu numaid=\"0\" arch=\"x86_64\">\n" +
         functions + "\n </cpu>\n</system>\n";
}

TEST_CASE("an NCCL dump with switches gives what all NVLinks of a GPU carry") {
  const std::string text = system_of(gpu(0, kToSwitches) + gpu(1, kToSwitches) + kNic);
  const ImportedCluster imported = import_cluster(text, "node.xml");
  const Cluster& cluster = imported.cluster;
  CHECK(cluster.name == "node");
  CHECK(cluster.nodes == 1);
  CHECK(cluster.devices_per_node == 2);
  CHECK(cluster.device.name == "H100-SXM5-80GB");
  CHECK(cluster.intra_node.wiring == Wiring::kSwitch);
  CHECK(cluster.intra_node.bandwidth.value == 18 * 25e9);
  CHECK(cluster.intra_node.bandwidth.provenance == Provenance::kPublished);
  // One port of 400 Gb/s, two GPUs.
  CHECK(cluster.inter_node.bandwidth.value == 25e9);
  CHECK(imported.notes.empty());
  const std::string written = to_json_text(cluster);
  CHECK(to_json_text(cluster_from_json(written, "again")) == written);
}

TEST_CASE("an NCCL dump with direct NVLinks gives cables, whichever end lists them") {
  const std::string text =
      system_of(gpu(0, to_gpu(1, 2)) + gpu(1, to_gpu(0, 2) + to_gpu(2, 4)) + gpu(2, "") + kNic);
  const NetworkLink link = import_cluster(text, "node.xml").cluster.intra_node;
  CHECK(link.wiring == Wiring::kCables);
  REQUIRE(link.cables.size() == 2);
  CHECK(link.cables[0].lanes == 2);
  CHECK(link.cables[1].first == 1);
  CHECK(link.cables[1].second == 2);
  CHECK(link.cables[1].lanes == 4);
  CHECK(link.bandwidth.value == 6 * 25e9);
}

// 32 GT/s x 16 lanes x 128/130 / 8 = 63.0 GB/s.
TEST_CASE("NVLinks that leave a GPU alone leave all on PCIe, and the notes say which") {
  const double pcie = 32e9 * 16 * 128 / 130 / 8;
  const ImportedCluster pairs = import_cluster(
      system_of(gpu(0, to_gpu(1, 4)) + gpu(1, "") + gpu(2, to_gpu(3, 4)) + gpu(3, "")), "node.xml");
  CHECK(pairs.cluster.intra_node.name == "pcie");
  CHECK(pairs.cluster.intra_node.bandwidth.value == doctest::Approx(pcie));
  CHECK(has_note(pairs, "NVLinks join only some GPUs (0 1, 2 3)"));
  CHECK(has_note(pairs, "no NIC"));
  const ImportedCluster lone =
      import_cluster(system_of(gpu(0, kToSwitches) + gpu(1, "")), "node.xml");
  CHECK(lone.cluster.intra_node.name == "pcie");
  CHECK(has_note(lone, "0000:01:00.0 has no NVLink"));
}

TEST_CASE("the narrowest part of a GPU's way to the CPU is its PCIe bandwidth") {
  const std::string bridge =
      "<pci busid=\"ff\" class=\"0x060400\" link_speed=\"16 GT/s\" link_width=\"8\">" + gpu(0, "") +
      gpu(1, "") + "</pci>";
  const Cluster cluster = import_cluster(system_of(bridge), "node.xml").cluster;
  CHECK(cluster.intra_node.bandwidth.value == doctest::Approx(16e9 * 8 * 128 / 130 / 8));
  CHECK(cluster.intra_node.bandwidth.provenance == Provenance::kPublished);
  // A virtual machine that hides its PCIe.
  const std::string hidden = replaced(replaced(system_of(gpu(0, "")), "32.0 GT/s PCIe", ""),
                                      "link_width=\"16\"", "link_width=\"0\"");
  const ImportedCluster two = import_cluster(
      replaced(hidden, "</cpu>", replaced(gpu(1, ""), "32.0 GT/s PCIe", "") + "</cpu>"), "vm.xml");
  CHECK(two.cluster.intra_node.bandwidth.provenance == Provenance::kAssumed);
  CHECK(two.cluster.intra_node.bandwidth.value == doctest::Approx(8e9 * 16 * 128 / 130 / 8));
}

TEST_CASE("a device id without a built-in GPU makes every number of the device an assumption") {
  const ImportedCluster imported = import_cluster(
      system_of(gpu(0, kToSwitches, "0xabcd") + gpu(1, kToSwitches, "0xabcd")), "n.xml");
  const DeviceKind& device = imported.cluster.device;
  CHECK(device.name == "unknown (as H100-SXM5-80GB)");
  CHECK(device.memory_bandwidth.provenance == Provenance::kAssumed);
  for (const PeakRate& peak : device.peaks)
    CHECK(peak.flops_per_second.provenance == Provenance::kAssumed);
  CHECK(has_note(imported, "0xabcd has no built-in GPU"));
  const Cluster base = load_cluster("hgx-h200");
  const ImportedCluster with_base =
      import_cluster(system_of(gpu(0, kToSwitches, "0xabcd")), "n.xml", &base);
  CHECK(with_base.cluster.device.name == base.device.name);
}

TEST_CASE("hosts of one NVLink domain are nodes") {
  const auto host = [](const std::string& hash, const std::string& functions) {
    return "<cpu host_hash=\"" + hash + "\" numaid=\"0\">" + functions + "</cpu>";
  };
  const std::string one = gpu(0, kToSwitches) + gpu(1, kToSwitches) + kNic;
  const Cluster cluster =
      import_cluster("<system version=\"2\">" + host("0xa", one) + host("0xb", one) + "</system>",
                     "n")
          .cluster;
  CHECK(cluster.nodes == 2);
  CHECK(cluster.num_devices() == 4);
  check_refused("<system version=\"2\">" + host("0xa", one) + host("0xb", gpu(0, "")) + "</system>",
                "hosts with 2 and 1 GPUs");
}

TEST_CASE("NCCL files that cannot be meant are refused by element") {
  const std::string good = system_of(gpu(0, to_gpu(1, 2)) + gpu(1, to_gpu(0, 2)) + kNic);
  check_refused(replaced(good, "count=\"2\"", "count=\"0\""),
                "system[0].cpu[0].pci[0].gpu[0].nvlink[0]");
  check_refused(replaced(good, "count=\"2\"", "count=\"9223372036854775808\""), "count is");
  check_refused(replaced(good, "count=\"2\"", "count=\"3\""), "but 3 back");
  check_refused(replaced(good, "target=\"0000:01", "target=\"0000:0f"), "where no GPU is");
  check_refused(replaced(good, "target=\"0000:01", "target=\"0000:00"),
                "leads from a GPU to itself");
  check_refused(replaced(good, "speed=\"400000\"", "speed=\"0\""), "nic[0].net[0]: speed is '0'");
  check_refused(replaced(good, "speed=\"400000\"", "speed=\"fast\""), "speed is 'fast'");
  check_refused(replaced(good, "32.0 GT/s", "-1 GT/s"), "link_speed is '-1 GT/s PCIe'");
  check_refused(replaced(good, "link_width=\"16\"", "link_width=\"-16\""), "link_width is '-16'");
  check_refused(replaced(good, "0000:01:00.0\" class", "0000:00:00.0\" class"), "a second GPU at");
  check_refused(system_of(kNic), "system: no GPU");
  check_refused(system_of(gpu(0, "") + gpu(1, "", "0x20b0")),
                "GPUs of two kinds, 0x2330 and 0x20b0");
  check_refused(system_of("<pci busid=\"0000:00:16.0\"/>"),
                "system[0].cpu[0].pci[0]: has no class");
  check_refused(good.substr(0, good.size() / 2), "line ");
  check_refused("<html></html>", "but 'html'");
  std::string deep;
  for (int i = 0; i < 100'000; ++i) deep += "<pci>";
  check_refused(deep, "nested deeper than 64");
}

TEST_CASE("an NCCL graph gives the rings that were chosen") {
  const std::string graph =
      "<graphs version=\"1\"><graph id=\"0\" pattern=\"4\" nchannels=\"2\" speedintra=\"12\" "
      "typeintra=\"SYS\"><channel><gpu dev=\"0\"/><gpu dev=\"1\"/></channel><channel><gpu "
      "dev=\"1\"/>"
      "<gpu dev=\"0\"/></channel></graph></graphs>";
  const Cluster cluster = import_cluster(graph, "g.xml").cluster;
  CHECK(cluster.devices_per_node == 2);
  CHECK(cluster.intra_node.bandwidth.value == 24e9);
  check_refused(replaced(graph, "speedintra=\"12\"", "speedintra=\"0\""), "speedintra is '0'");
  check_refused(replaced(graph, "<gpu dev=\"1\"/></channel>", "</channel>"), "2 GPUs, but 1");
  check_refused(replaced(graph, "pattern=\"4\"", "pattern=\"1\""), "no graph of rings");
}

// ---------------------------------------------------------------- nvidia-smi topo -m

const std::string kLegend =
    "\nLegend:\n\n  X    = Self\n  SYS  = Connection traversing PCIe as well as the SMP "
    "interconnect "
    "between NUMA nodes\n  NV#  = Connection traversing a bonded set of # NVLinks\n\nNIC "
    "Legend:\n\n  "
    "NIC0: mlx5_0\n";

// A header underlined by the terminal, tabs, affinities with commas, two NICs of which one is near.
const std::string kSwitched =
    "\t\x1b[4mGPU0\tGPU1\tGPU2\tNIC0\tNIC1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m\n"
    "GPU0\t X \tNV18\tNV18\tPXB\tSYS\t0-55,112-167\t0\t\tN/A\n"
    "GPU1\tNV18\t X \tNV18\tNODE\tSYS\t0-55,112-167\t0\t\tN/A\n"
    "GPU2\tNV18\tNV18\t X \tSYS\tNODE\t56-111,168-223\t1\t\tN/A\n"
    "NIC0\tPXB\tNODE\tSYS\t X \tSYS\t\t\t\t\n"
    "NIC1\tSYS\tSYS\tNODE\tSYS\t X \t\t\t\t\n" +
    kLegend;

TEST_CASE("a topology matrix whose rows have more NVLinks than a GPU is a switch") {
  const ImportedCluster imported = import_cluster(kSwitched, "topo.txt");
  const Cluster& cluster = imported.cluster;
  CHECK(cluster.devices_per_node == 3);
  CHECK(cluster.intra_node.wiring == Wiring::kSwitch);
  CHECK(cluster.intra_node.bandwidth.value == 450e9);
  CHECK(cluster.intra_node.bandwidth.provenance == Provenance::kAssumed);
  CHECK(cluster.device.name == "unknown (as H100-SXM5-80GB)");
  CHECK(has_note(imported, "does not name the GPUs"));
  CHECK(has_note(imported, "1 of 2 NICs"));
  CHECK(cluster.inter_node.bandwidth.value == doctest::Approx(400e9 / 8 / 3));
  const Cluster base = load_cluster("hgx-h200");
  CHECK(import_cluster(kSwitched, "topo.txt", &base).cluster.device.name == "H200-SXM5-141GB");
}

// The table of a DGX-1 is the built-in's cables.
TEST_CASE("a topology matrix of few NVLinks is cables") {
  const std::vector<Cable> cables = load_cluster("dgx1-v100").intra_node.cables;
  std::vector<std::vector<std::string>> cells(8, std::vector<std::string>(8, "SYS"));
  for (std::size_t i = 0; i < 8; ++i) cells[i][i] = "X";
  for (const Cable& cable : cables) {
    const auto a = static_cast<std::size_t>(cable.first),
               b = static_cast<std::size_t>(cable.second);
    cells[a][b] = cells[b][a] = "NV" + std::to_string(cable.lanes);
  }
  std::string text = "     ";
  for (int i = 0; i < 8; ++i) text += " GPU" + std::to_string(i);
  text += " CPU Affinity NUMA Affinity\n";
  for (std::size_t i = 0; i < 8; ++i) {
    text += "GPU" + std::to_string(i);
    for (const std::string& cell : cells[i]) text += "  " + cell;
    text += "  0-19,40-59  0\n";
  }
  const Cluster cluster = import_cluster(text, "topo.txt").cluster;
  CHECK(cluster.intra_node.wiring == Wiring::kCables);
  CHECK(cluster.intra_node.bandwidth.value == 150e9);
  REQUIRE(cluster.intra_node.cables.size() == cables.size());
  for (std::size_t i = 0; i < cables.size(); ++i) {
    CHECK(cluster.intra_node.cables[i].first == cables[i].first);
    CHECK(cluster.intra_node.cables[i].second == cables[i].second);
    CHECK(cluster.intra_node.cables[i].lanes == cables[i].lanes);
  }
  CHECK(cluster.device.name == "unknown (as V100-SXM2-16GB)");
}

TEST_CASE("a topology matrix without NVLinks, or with islands of them, is PCIe") {
  const std::string text =
      "        GPU0 GPU1 GPU2 GPU3 CPU Affinity\n"
      "GPU0     X   NV4  SYS  SYS  0-31\nGPU1    NV4   X   SYS  SYS  0-31\n"
      "GPU2    SYS  SYS   X   NV4  32-63\nGPU3    SYS  SYS  NV4   X   32-63\n";
  const ImportedCluster pairs = import_cluster(text, "topo.txt");
  CHECK(pairs.cluster.intra_node.name == "pcie");
  CHECK(has_note(pairs, "(0 1, 2 3)"));
  const ImportedCluster plain =
      import_cluster("     GPU0 GPU1\nGPU0  X  PHB\nGPU1 PHB  X\n", "topo.txt");
  CHECK(plain.cluster.intra_node.name == "pcie");
  CHECK(plain.cluster.intra_node.bandwidth.provenance == Provenance::kAssumed);
}

TEST_CASE("a topology matrix that cannot be meant is refused by line, row and column") {
  check_refused(replaced(kSwitched, "\tNV18\tNV18\tPXB", "\tNV18\tNV17\tPXB"),
                "line 4: GPU2 to GPU0 is 'NV18', but 17 NVLinks lead back");
  check_refused(replaced(kSwitched, "GPU1\tNV18\t X \tNV18", "GPU1\tNV18\t X \tQPI"),
                "line 3: GPU1 to GPU2 is 'QPI'");
  check_refused(replaced(kSwitched, "NV18", "NV0"), "is 'NV0'");
  check_refused(replaced(kSwitched, "NV18", "NV99999999999"), "is 'NV99999999999'");
  check_refused(replaced(kSwitched, "GPU0\t X ", "GPU0\tSYS"), "only a GPU's way to itself is X");
  check_refused(replaced(kSwitched, "GPU2\tNV18\tNV18\t X ", "GPUX\tNV18\tNV18\t X "),
                "no row of GPU2");
  check_refused(replaced(kSwitched, "GPU2\tNV18\tNV18\t X ", "GPU1\tNV18\tNV18\t X "),
                "a second row of GPU1");
  check_refused("\tGPU0\tGPU1\nGPU0\tX\tNV1\nGPU1\tNV1\n", "GPU1 has 1 cells, wanted 2");
}

// ---------------------------------------------------------------- nccl-tests

// As nccl-tests -J writes it: seconds = fixed + bytes * factor / bus bandwidth, in microseconds.
struct MadeTest {
  std::string program = "all_reduce_perf";
  int processes = 1, gpus = 8, hosts = 1;
  double fixed = 20e-6, bus = 360e9, factor = 2.0 * 7 / 8;
  // A second protocol below 64 KiB: quicker to start, slower.
  double quick_fixed = 0, quick_bus = 0;
  std::string environment = "\"SHELL=bash\"";
  std::string device = "NVIDIA H100 80GB HBM3";
};

std::string text_of(const MadeTest& test) {
  std::string rows, devices;
  for (double size = 8; size <= 8.0 * (1 << 30); size *= 2) {
    double seconds = test.fixed + size * test.factor / test.bus;
    if (test.quick_bus > 0)
      seconds = std::min(seconds, test.quick_fixed + size * test.factor / test.quick_bus);
    const std::string timing = "{\"time\":" + std::to_string(seconds * 1e6) +
                               ",\"alg_bw\":" + std::to_string(size / seconds / 1e9) +
                               ",\"bus_bw\":" + std::to_string(size / seconds / 1e9 * test.factor) +
                               ",\"nwrong\":0.000000}";
    rows +=
        (rows.empty() ? "" : ",") + std::string("{\"size\":") +
        std::to_string(static_cast<std::int64_t>(size)) +
        ",\"count\":2,\"type\":\"float\",\"redop\":\"sum\",\"root\":\"    -1\",\"out_of_place\":" +
        timing + ",\"in_place\":" + timing +
        ",\"actual_iterations\":20,\"experiment_name\":\"AllReduce\"}";
  }
  for (int i = 0; i < test.processes; ++i)
    devices += (i > 0 ? "," : "") + std::string("{\"rank\":") + std::to_string(i) +
               ",\"group\":0,\"pid\":1,\"hostname\":\"node" +
               std::to_string(i * test.hosts / test.processes) +
               "\",\"device\":0,\"device_hex\":\"0000:04:00\",\"device_info\":\"" + test.device +
               "\"}";
  return "{\"version\":2,\"start_time\":\"2026-01-31 10:00:00\",\"args\":[\"./build/" +
         test.program + "\",\"-J\",\"x.json\"],\"env\":[" + test.environment +
         "],\"nccl_version\":22705,\"config\":{\"nthreads\":1,\"ngpus\":" +
         std::to_string(test.gpus) + ",\"minimum_bytes\":8,\"devices\":[" + devices +
         "]},\"results\":[" + rows + "],\"out_of_bounds\":{\"count\":0,\"okay\":\"true\"}}";
}

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

// ---------------------------------------------------------------- ASTRA-sim

const std::string kAstra =
    "# three dimensions\ntopology: [ Ring, FullyConnected, Switch ]\nnpus_count: [ 2, 8, 4 ]  # "
    "NPUs\n"
    "bandwidth: [ 200.0, 100.0, 50.0 ]  # GB/s\nlatency: [ 50.0, 500.0, 2000.0 ]  # ns\n";

bool reads_yaml() {
  try {
    import_cluster(kAstra, "net.yml");
    return true;
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::kUsage);
    CHECK(std::string(error.what()).find("built without yaml-cpp") != std::string::npos);
    MESSAGE("skipped: built without yaml-cpp");
    return false;
  }
}

TEST_CASE("dimensions of an ASTRA-sim network are node, cluster and outer tiers") {
  if (!reads_yaml()) return;
  const Cluster cluster = import_cluster(kAstra, "net.yml").cluster;
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
  check_refused(replaced(kAstra, "2, 8, 4 ]", "2, 8 ]"),
                "npus_count: 2 entries, but topology has 3");
  check_refused(replaced(kAstra, "[ 2,", "[ 0,"), "npus_count[0]: found '0'");
  check_refused(replaced(kAstra, "[ 2,", "[ 2.5,"), "npus_count[0]: found 2.5");
  check_refused(replaced(kAstra, "[ 2,", "[ 9223372036854775808,"), "npus_count[0]");
  check_refused(replaced(kAstra, "200.0", "0"),
                "bandwidth[0]: found '0', wanted a number above zero");
  check_refused(replaced(kAstra, "200.0", ".nan"), "bandwidth[0]");
  check_refused(replaced(kAstra, "200.0", "fast"), "bandwidth[0]: found 'fast'");
  check_refused(replaced(kAstra, "[ 50.0, 500", "[ -1, 500"), "latency[0]: found '-1'");
  check_refused(replaced(kAstra, "Ring", "Rings"),
                "topology[0]: unknown building block 'Rings', did");
  check_refused(replaced(kAstra, "latency", "latencies"), "unknown key 'latencies', did you mean");
  check_refused(replaced(kAstra, "latency: [ 50.0, 500.0, 2000.0 ]", ""),
                "the key 'latency' is missing");
  check_refused("topology: [ Ring\n", "lab.txt");
  check_refused("topology: *none\n", "lab.txt");
}

// ---------------------------------------------------------------- Calculon, LLMCompass

TEST_CASE("a Calculon system keeps peaks, memory, networks and what they take of a processor") {
  const std::string text =
      R"({"matrix": {"float16": {"tflops": 312, "gflops_efficiency": [[128, 0.95], [0, 0.1]]},
                     "float8": {"tflops": 600, "gflops_efficiency": [[1, 0.9]]}},
          "vector": {}, "mem1": {"GiB": 80, "GBps": 2048, "MB_efficiency": [[1, 0.5], [100, 0.9]]},
          "networks": [{"bandwidth": 300, "efficiency": 0.65, "size": 8, "latency": 0.00001,
                        "processor_usage": 0.15},
                       {"bandwidth": 25, "efficiency": 0.9, "size": 64, "latency": 0.00002}]})";
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

// ---------------------------------------------------------------- choice, users' files

TEST_CASE("a file that describes no cluster is refused with what would") {
  check_refused("hello\n", "understood are NCCL topology XML");
  check_refused("", "lab.txt");
  check_refused("[1, 2]", "lab.txt");
  check_refused("{\"schema\": \"sextant.cluster/1\"}", "the key 'name' is missing");
}

std::optional<std::filesystem::path> shared_folder() {
  const char* const named = std::getenv("SEXTANT_SHARED");
  for (const std::filesystem::path& folder :
       {std::filesystem::path(named != nullptr ? named : ""), std::filesystem::path("../shared"),
        std::filesystem::path("../../shared")})
    if (!folder.empty() && std::filesystem::is_directory(folder / "userfiles")) return folder;
  return std::nullopt;
}

struct UserFile {
  const char* path;
  std::int64_t nodes, devices_per_node;
};

TEST_CASE("files that users have become clusters of the size they say") {
  const auto shared = shared_folder();
  if (!shared) {
    MESSAGE("skipped: no shared folder (SEXTANT_SHARED)");
    return;
  }
  const bool yaml = reads_yaml();
  for (const UserFile& file :
       {UserFile{"topology/p4d-24xl-topo.xml", 1, 8}, UserFile{"topology/ndv2-topo.xml", 1, 8},
        UserFile{"topology/ncv4-graph.xml", 1, 4},
        UserFile{"astra_sim/analytical_FullyConnected.yml", 1, 16},
        UserFile{"astra_sim/analytical_Ring.yml", 1, 16},
        UserFile{"astra_sim/analytical_Switch.yml", 1, 16},
        UserFile{"astra_sim/analytical_Ring_FullyConnected_Switch.yml", 32, 2},
        UserFile{"astra_sim/network__analytical__HGX-H100-validated.yml", 1, 8},
        UserFile{"astra_sim/network__analytical__Ring_8npus.yml", 1, 8},
        UserFile{"hardware/a100_80g.json", 8192, 8},
        UserFile{"hardware/h100_80g_nvl8.json", 8192, 8},
        UserFile{"hardware/llmcompass-GA100.json", 1, 4},
        UserFile{"hardware/llmcompass-ga102_template.json", 1, 4},
        UserFile{"hardware/llmcompass-mi210.json", 1, 4}}) {
    CAPTURE(file.path);
    const std::string path = (*shared / "userfiles" / file.path).string();
    if (!yaml && path.ends_with(".yml")) continue;
    const Cluster cluster = load_cluster(path);
    CHECK(cluster.nodes == file.nodes);
    CHECK(cluster.devices_per_node == file.devices_per_node);
    const std::string text = to_json_text(cluster);
    CHECK(to_json_text(cluster_from_json(text, "again")) == text);
  }
  const std::string g5 = (*shared / "userfiles/topology/g5.48xl-topo.xml").string();
  CHECK_THROWS_WITH_AS(load_cluster(g5), doctest::Contains("has no class"), Error);
}

}  // namespace
}  // namespace sextant
