// Files of other programs: what is read is what they say, and the rest is said to be assumed.

#include "simulator/cluster_files/cluster_import.h"

#include "core/base/error.h"
#include "simulator/cluster_files/cluster_file.h"
#include "simulator/cluster_files/known_devices.h"
#include "tests/simulator/clusters/import_samples.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace sextant::cluster_import_test {
namespace {

using namespace testing;

std::string bridge(const std::string& speed, int width, const std::string& below,
                   const std::string& device = "0xffff") {
  return "<pci busid=\"ff\" class=\"0x060400\" vendor=\"0x104c\" device=\"" + device +
         "\" link_speed=\"" + speed + "\" link_width=\"" + std::to_string(width) + "\">" + below +
         "</pci>";
}

// A card with ports of 100 Gb/s in a slot of 8 GT/s.
std::string ports_of_100g(int ports, int width) {
  std::string nets;
  for (int i = 0; i < ports; ++i)
    nets += "<net name=\"mlx5_" + std::to_string(i) + "\" speed=\"100000\"/>";
  return "<pci busid=\"0000:3b:00.0\" class=\"0x020700\" link_speed=\"8.0 GT/s PCIe\" "
         "link_width=\"" +
         std::to_string(width) + "\"><nic>" + nets + "</nic></pci>";
}

double nic_rate(const std::string& functions) {
  return import_cluster(system_of(functions), "node.xml").cluster.inter_node.bandwidth.value;
}

TEST_CASE("an NCCL dump with switches gives what all NVLinks of a GPU carry") {
  const std::string text = system_of(gpu(0, to_switches()) + gpu(1, to_switches()) + nic());
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
      system_of(gpu(0, to_gpu(1, 2)) + gpu(1, to_gpu(0, 2) + to_gpu(2, 4)) + gpu(2, "") + nic());
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
      import_cluster(system_of(gpu(0, to_switches()) + gpu(1, "")), "node.xml");
  CHECK(lone.cluster.intra_node.name == "pcie");
  CHECK(has_note(lone, "0000:01:00.0 has no NVLink"));
}

TEST_CASE("the narrowest PCIe between GPUs is their bandwidth, not what is above where they meet") {
  const Cluster cluster =
      import_cluster(system_of(bridge("16 GT/s", 8, gpu(0, "")) + gpu(1, "")), "node.xml").cluster;
  CHECK(cluster.intra_node.bandwidth.value == doctest::Approx(16e9 * 8 * 128 / 130 / 8));
  CHECK(cluster.intra_node.bandwidth.provenance == Provenance::kPublished);
  // Below one bridge: the GPUs' own 32 GT/s and 16 lanes.
  const Cluster met =
      import_cluster(system_of(bridge("16 GT/s", 8, gpu(0, "") + gpu(1, ""))), "node.xml").cluster;
  CHECK(met.intra_node.bandwidth.value == doctest::Approx(32e9 * 16 * 128 / 130 / 8));
  // A virtual machine that hides its PCIe.
  const std::string hidden = replaced(replaced(system_of(gpu(0, "")), "32.0 GT/s PCIe", ""),
                                      "link_width=\"16\"", "link_width=\"0\"");
  const ImportedCluster two = import_cluster(
      replaced(hidden, "</cpu>", replaced(gpu(1, ""), "32.0 GT/s PCIe", "") + "</cpu>"), "vm.xml");
  CHECK(two.cluster.intra_node.bandwidth.provenance == Provenance::kAssumed);
  CHECK(two.cluster.intra_node.bandwidth.value == doctest::Approx(8e9 * 16 * 128 / 130 / 8));
}

// 8 GT/s x 16 lanes x 128/130 / 8 = 15.75 GB/s.
TEST_CASE("ports of one card share its slot, cards below one bridge share its link") {
  const double slot = 8e9 * 16 * 128 / 130 / 8;
  CHECK(nic_rate(gpu(0, "") + ports_of_100g(1, 16)) == doctest::Approx(12.5e9));
  CHECK(nic_rate(gpu(0, "") + ports_of_100g(2, 16)) == doctest::Approx(slot));
  CHECK(nic_rate(gpu(0, "") + bridge("8 GT/s", 16, ports_of_100g(1, 16) + ports_of_100g(1, 16))) ==
        doctest::Approx(slot));
  // One card each at the CPU and below a bridge with GPU 1, whose link to the CPU is narrow: what
  // GPU 1 gets from below it takes nothing from there.
  CHECK(nic_rate(gpu(0, "") + ports_of_100g(1, 16) +
                 bridge("8 GT/s", 1, gpu(1, "") + ports_of_100g(1, 16))) ==
        doctest::Approx(12.5e9));
  // Two GPUs below a bridge of one lane (0.98 GB/s), all NICs above it.
  CHECK(nic_rate(bridge("8 GT/s", 1, gpu(0, "") + gpu(1, "")) + ports_of_100g(1, 16)) ==
        doctest::Approx(8e9 * 128 / 130 / 8 / 2));
}

// A virtual machine: bridges that say one lane of 2.5 GT/s, functions that say no width.
TEST_CASE("what meets below a bridge does not feel it, and emulated bridges are felt by nobody") {
  const std::string functions =
      replaced(gpu(0, to_switches()), "link_width=\"16\"", "link_width=\"0\"") +
      replaced(nic(), "link_width=\"16\"", "link_width=\"0\"");
  const ImportedCluster below =
      import_cluster(system_of(bridge("2.5 GT/s PCIe", 1, functions)), "vm.xml");
  CHECK(below.cluster.inter_node.bandwidth.value == doctest::Approx(50e9));
  CHECK(has_note(below,
                 "counts as 8 GT/s or 16 lanes, as NCCL takes it: 0000:00:00.0, 0000:50:00.0"));
  // Two lanes of 2.5 GT/s: 0.5 GB/s, unless nothing of it is real.
  const std::string apart = gpu(0, "") + gpu(1, "");
  const auto joined_by = [&](const std::string& device) {
    return import_cluster(system_of(bridge("2.5 GT/s", 2, gpu(0, ""), device) + gpu(1, "")),
                          "vm.xml");
  };
  CHECK(joined_by("0xffff").cluster.intra_node.bandwidth.value == doctest::Approx(0.5e9));
  const ImportedCluster emulated = joined_by("0x8232");
  CHECK(emulated.cluster.intra_node.bandwidth.value == doctest::Approx(32e9 * 16 * 128 / 130 / 8));
  CHECK(has_note(emulated, "emulated bridges carry whatever is below them: ff"));
}

TEST_CASE("GPUs of other vendors are refused, and elements that are not read are named") {
  const std::string amd = replaced(
      replaced(gpu(0, "<xgmi target=\"0000:01:00.0\" count=\"1\"/>", "0x74a1"), "0x10de", "0x1002"),
      "0x030200", "0x120000");
  check_refused(system_of(amd), "pci[0].gpu[0]: a GPU of vendor 0x1002 (AMD): only NVIDIA's");
  const std::string console =
      "<pci busid=\"0000:09:00.0\" class=\"0x030000\" vendor=\"0x1a03\" device=\"0x2000\"/>";
  const ImportedCluster imported =
      import_cluster(system_of(gpu(0, to_switches() + "<c2c bw=\"1\"/>") +
                               gpu(1, to_switches() + "<c2c bw=\"1\"/>") + console + nic()),
                     "n.xml");
  CHECK(imported.cluster.devices_per_node == 2);
  CHECK(has_note(imported, "graphics of other vendors, left out: 0000:09:00.0"));
  CHECK(has_note(imported, "elements that are not read: gpu.c2c (2)"));
}

TEST_CASE("a device id without a built-in GPU makes every number of the device an assumption") {
  const ImportedCluster imported = import_cluster(
      system_of(gpu(0, to_switches(), "0xabcd") + gpu(1, to_switches(), "0xabcd")), "n.xml");
  const DeviceKind& device = imported.cluster.device;
  CHECK(device.name == "unknown (as H100-SXM5-80GB)");
  CHECK(device.memory_bandwidth.provenance == Provenance::kAssumed);
  for (const PeakRate& peak : device.peaks)
    CHECK(peak.flops_per_second.provenance == Provenance::kAssumed);
  CHECK(has_note(imported, "0xabcd has no built-in GPU"));
  const Cluster again = cluster_from_json(to_json_text(imported.cluster), "again");
  CHECK(stand_in_of(again.device) == "H100-SXM5-80GB");
  CHECK(sm_of_device(again.device) == 90);
  CHECK(!stand_in_of(load_cluster("dgx-h100").device));
  CHECK(!again.device.memory_source.empty());
  const Cluster base = load_cluster("hgx-h200");
  const ImportedCluster with_base =
      import_cluster(system_of(gpu(0, to_switches(), "0xabcd")), "n.xml", &base);
  CHECK(with_base.cluster.device.name == base.device.name);
}

TEST_CASE("hosts of one NVLink domain are one node, whatever each has; others are nodes") {
  const auto system = [](const std::string& first, const std::string& second) {
    return "<system version=\"2\"><cpu host_hash=\"0xa\" numaid=\"0\">" + first +
           "</cpu><cpu host_hash=\"0xb\" numaid=\"0\">" + second + "</cpu></system>";
  };
  const std::string two = gpu(0, to_switches()) + gpu(1, to_switches()) + nic();
  const ImportedCluster domain = import_cluster(system(two, gpu(0, to_switches()) + nic()), "n");
  CHECK(domain.cluster.nodes == 1);
  CHECK(domain.cluster.devices_per_node == 3);
  // Two ports of 50 GB/s for three GPUs.
  CHECK(domain.cluster.inter_node.bandwidth.value == doctest::Approx(100e9 / 3));
  CHECK(has_note(domain, "2 hosts on the switches of one NVLink domain are one node"));
  const std::string plain = gpu(0, "") + gpu(1, "") + nic();
  const Cluster cluster = import_cluster(system(plain, plain), "n").cluster;
  CHECK(cluster.nodes == 2);
  CHECK(cluster.num_devices() == 4);
  check_refused(system(two, gpu(0, "")), "hosts with 2 and 1 GPUs");
}

TEST_CASE("an NVLink from a GPU to itself is noted and makes no difference") {
  const std::string own = to_gpu(0, 4);
  const auto imported_of = [](const std::string& of_first, const std::string& of_second) {
    return import_cluster(system_of(gpu(0, of_first) + gpu(1, of_second) + nic()), "n.xml");
  };
  for (const auto& [first, second] : std::vector<std::pair<std::string, std::string>>{
           {to_gpu(1, 2), to_gpu(0, 2)}, {to_switches(), to_switches()}, {"", ""}}) {
    const ImportedCluster with = imported_of(own + first, second),
                          without = imported_of(first, second);
    CHECK(to_json_text(with.cluster) == to_json_text(without.cluster));
    CHECK(has_note(with, "from the GPU at 0000:00:00.0 to itself"));
    CHECK(!has_note(without, "to itself"));
  }
}

// A process that sees three GPUs of four.
TEST_CASE("an NVLink to a GPU that the file does not have is noted and makes no difference") {
  const std::string first = to_gpu(1, 2) + to_gpu(3, 2), second = to_gpu(2, 2) + to_gpu(3, 2);
  const ImportedCluster imported =
      import_cluster(system_of(gpu(0, first) + gpu(1, second) + gpu(2, "") + nic()), "n.xml");
  const ImportedCluster whole = import_cluster(
      system_of(gpu(0, to_gpu(1, 2)) + gpu(1, to_gpu(2, 2)) + gpu(2, "") + nic()), "n.xml");
  CHECK(to_json_text(imported.cluster) == to_json_text(whole.cluster));
  CHECK(has_note(imported, "what is no GPU of the file, left out: 0000:03:00.0"));
  const ImportedCluster alone = import_cluster(system_of(gpu(0, to_gpu(1, 2)) + nic()), "n.xml");
  CHECK(alone.cluster.devices_per_node == 1);
}

TEST_CASE("NCCL files that cannot be meant are refused by element") {
  const std::string good = system_of(gpu(0, to_gpu(1, 2)) + gpu(1, to_gpu(0, 2)) + nic());
  check_refused(replaced(good, "count=\"2\"", "count=\"0\""),
                "system[0].cpu[0].pci[0].gpu[0].nvlink[0]");
  check_refused(replaced(good, "count=\"2\"", "count=\"9223372036854775808\""), "count is");
  check_refused(replaced(good, "count=\"2\"", "count=\"3\""), "but 3 back");
  check_refused(replaced(good, "speed=\"400000\"", "speed=\"0\""), "nic[0].net[0]: speed is '0'");
  check_refused(replaced(good, "speed=\"400000\"", "speed=\"fast\""), "speed is 'fast'");
  check_refused(replaced(good, "32.0 GT/s", "-1 GT/s"), "link_speed is '-1 GT/s PCIe'");
  check_refused(replaced(good, "link_width=\"16\"", "link_width=\"-16\""), "link_width is '-16'");
  check_refused(replaced(good, "0000:01:00.0\" class", "0000:00:00.0\" class"), "a second GPU at");
  check_refused(system_of(nic()), "system: no GPU");
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

TEST_CASE("a topology matrix whose rows have more NVLinks than a GPU is a switch") {
  const ImportedCluster imported = import_cluster(switched_matrix(), "topo.txt");
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
  CHECK(import_cluster(switched_matrix(), "topo.txt", &base).cluster.device.name ==
        "H200-SXM5-141GB");
}

// 18 NVLinks: 25 GB/s each since Ampere, 50 in Blackwell.
TEST_CASE("the base says of which generation the NVLinks of a file are") {
  const Cluster base = load_cluster("gb200-nvl72");
  CHECK(import_cluster(switched_matrix(), "topo.txt", &base).cluster.intra_node.bandwidth.value ==
        900e9);
  const std::string nobody = replaced(
      replaced(system_of(gpu(0, to_switches()) + gpu(1, to_switches())), "sm=\"90\"", "sm=\"0\""),
      "sm=\"90\"", "sm=\"0\"");
  CHECK(import_cluster(nobody, "n.xml", &base).cluster.intra_node.bandwidth.value == 900e9);
  Cluster other = base;
  other.device.name = "mine";
  const ImportedCluster guessed = import_cluster(switched_matrix(), "topo.txt", &other);
  CHECK(guessed.cluster.intra_node.bandwidth.value == 450e9);
  CHECK(has_note(guessed, "how fast an NVLink of mine is nobody says"));
}

TEST_CASE("a table of PCIe only is known by its legend, and hides NVLinks") {
  const std::string text =
      "\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tPHB\t0-3\nGPU1\tPHB\t X \t0-3\n\nLegend:\n\n"
      "  X    = Self\n  PHB  = a host bridge\n";
  const ImportedCluster imported = import_cluster(text, "topo.txt");
  CHECK(imported.cluster.intra_node.name == "pcie");
  CHECK(has_note(imported, "one of PCIe only (topo -mp)"));
  CHECK(!has_note(import_cluster(text + "  NV#  = NVLinks\n", "topo.txt"), "topo -mp"));
  Cluster base = load_cluster("dgx-h100");
  base.devices_per_node = 2;
  CHECK(import_cluster(text, "topo.txt", &base).cluster.intra_node.name == "nvlink4");
}

TEST_CASE("a byte order mark is skipped in every format, and UTF-16 is named") {
  const std::string mark = "\xEF\xBB\xBF";
  CHECK(import_cluster(mark + switched_matrix(), "t.txt").cluster.devices_per_node == 3);
  CHECK(import_cluster(mark + system_of(gpu(0, "")), "t.xml").cluster.devices_per_node == 1);
  check_refused(std::string("\xFF\xFEG\0P\0", 6), "the text is UTF-16");
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
  check_refused(replaced(switched_matrix(), "\tNV18\tNV18\tPXB", "\tNV18\tNV17\tPXB"),
                "line 4: GPU2 to GPU0 is 'NV18', but 17 NVLinks lead back");
  check_refused(replaced(switched_matrix(), "GPU1\tNV18\t X \tNV18", "GPU1\tNV18\t X \tQPI"),
                "line 3: GPU1 to GPU2 is 'QPI'");
  check_refused(replaced(switched_matrix(), "NV18", "NV0"), "is 'NV0'");
  check_refused(replaced(switched_matrix(), "NV18", "NV99999999999"), "is 'NV99999999999'");
  check_refused(replaced(switched_matrix(), "GPU0\t X ", "GPU0\tSYS"),
                "only a GPU's way to itself is X");
  check_refused(replaced(switched_matrix(), "GPU2\tNV18\tNV18\t X ", "GPUX\tNV18\tNV18\t X "),
                "no row of GPU2");
  check_refused(replaced(switched_matrix(), "GPU2\tNV18\tNV18\t X ", "GPU1\tNV18\tNV18\t X "),
                "a second row of GPU1");
  // A pasted header without its last NIC, a cell that slid, a way that has no way back.
  check_refused(replaced(switched_matrix(), "NIC0\tNIC1\tCPU", "NIC0\tCPU"),
                "line 2: GPU0 has ways to 5 ends, but the header names 4");
  check_refused(replaced(switched_matrix(), "NIC0\tPXB\tNODE", "NIC0\tPIX\tNODE"),
                "NIC0 to GPU0 is 'PIX', but 'PXB' back");
  check_refused("\tGPU0\tGPU1\nGPU0\tX\tNV1\nGPU1\tNV1\n", "GPU1 has 1 cells, wanted 2");
}

// ---------------------------------------------------------------- choice, users' files

TEST_CASE("a file that describes no cluster is refused with what would") {
  check_refused("hello\n", "understood are cluster files, NCCL topology XML");
  check_refused("", "lab.txt");
  check_refused("[1, 2]", "lab.txt: no cluster file but a list");
  check_refused("{}", "an empty object; understood are");
  check_refused("{\"schema\": \"sextant.cluster/1\", \"nodes\": 1}", "the key 'name' is missing");
  check_refused("{\"schema\": \"sextant.graph/1\"}", "a file of 'sextant.graph/1'");
  check_refused("{\"ok\": true, \"cluster\": {\"nodes\": 1}}", "under its key 'cluster'");
  check_refused("{\"strategy\": \"dp=2\", \"cluster\": \"x\", \"cluster_text\": \"{}\"}",
                "a plan, which holds its cluster: leave out -c");
  check_refused("{\"model_type\": \"llama\"}", "a model's config");
  check_refused("{\"traceEvents\": []}", "a trace");
  check_refused("{\"nods\": 3}", "JSON with the key 'nods', did you mean 'nodes'?");
  check_refused("{\"people\": 3}", "JSON with the key 'people'; understood");
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
}  // namespace sextant::cluster_import_test
