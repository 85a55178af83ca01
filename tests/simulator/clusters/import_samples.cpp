// Text by text.
#include "tests/simulator/clusters/import_samples.h"

#include "core/base/error.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>

namespace sextant::testing {

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

std::string gpu(int index, const std::string& nvlinks, const std::string& id) {
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

std::string to_switches() {
  return nvlink("0000:c7:00.0", 10, "0x068000") + nvlink("0000:c8:00.0", 8, "0x068000");
}

std::string nic() {
  return "<pci busid=\"0000:50:00.0\" class=\"0x020700\" link_speed=\"32.0 GT/s PCIe\" "
         "link_width=\"16\">"
         "<nic><net name=\"mlx5_0\" dev=\"0\" speed=\"400000\" port=\"1\" gdr=\"1\"/></nic></pci>";
}

std::string system_of(const std::string& functions) {
  return "<!-- two > one -->\n<system version=\"1\">\n <cpu numaid=\"0\" arch=\"x86_64\">\n" +
         functions + "\n </cpu>\n</system>\n";
}

const std::string kLegend =
    "\nLegend:\n\n  X    = Self\n  SYS  = Connection traversing PCIe as well as the SMP "
    "interconnect "
    "between NUMA nodes\n  NV#  = Connection traversing a bonded set of # NVLinks\n\nNIC "
    "Legend:\n\n  "
    "NIC0: mlx5_0\n";

// A header underlined by the terminal, tabs, affinities with commas, two NICs of which one is near.
std::string switched_matrix() {
  return "\t\x1b[4mGPU0\tGPU1\tGPU2\tNIC0\tNIC1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m\n"
         "GPU0\t X \tNV18\tNV18\tPXB\tSYS\t0-55,112-167\t0\t\tN/A\n"
         "GPU1\tNV18\t X \tNV18\tNODE\tSYS\t0-55,112-167\t0\t\tN/A\n"
         "GPU2\tNV18\tNV18\t X \tSYS\tNODE\t56-111,168-223\t1\t\tN/A\n"
         "NIC0\tPXB\tNODE\tSYS\t X \tSYS\t\t\t\t\n"
         "NIC1\tSYS\tSYS\tNODE\tSYS\t X \t\t\t\t\n" +
         kLegend;
}

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

std::string log_of(const MadeTest& test, const std::string& name) {
  std::string text =
      name + "# nThread 1 nGpus 1 minBytes 8 maxBytes 8589934592\n#\n# Using devices\n";
  const int ranks = test.processes * test.gpus;
  for (int i = 0; i < ranks; ++i)
    text += "#  Rank " + std::to_string(i) + " Group  0 Pid 52 on node" +
            std::to_string(i * test.hosts / ranks) + " device  0 [0000:18:00] " + test.device +
            "\n";
  text +=
      "#\n#                      out-of-place              in-place\n"
      "#       size    count   type  redop   root    time  algbw  busbw #wrong    time  algbw  "
      "busbw "
      "#wrong\n#        (B) (elements)                  (us) (GB/s) (GB/s)           (us) (GB/s) "
      "(GB/s)\n";
  for (double size = 8; size <= 8.0 * (1 << 30); size *= 2) {
    const double seconds = test.fixed + size * test.factor / test.bus;
    char timing[128];
    std::snprintf(timing, sizeof timing, " %7.2f %6.2f %6.2f    N/A", seconds * 1e6,
                  size / seconds / 1e9, size / seconds / 1e9 * test.factor);
    text += "  " + std::to_string(static_cast<std::int64_t>(size)) + " 2 float " +
            (test.program == "all_gather_perf" ? "none" : "sum") + " -1" + timing + timing + "\n";
  }
  return text + "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 116.372\n#\n";
}

std::string astra_network() {
  return "# three dimensions\ntopology: [ Ring, FullyConnected, Switch ]\nnpus_count: [ 2, 8, 4 ]  "
         "# "
         "NPUs\n"
         "bandwidth: [ 200.0, 100.0, 50.0 ]  # GB/s\nlatency: [ 50.0, 500.0, 2000.0 ]  # ns\n";
}

bool reads_yaml() {
  try {
    import_cluster(astra_network(), "net.yml");
    return true;
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::kUsage);
    CHECK(std::string(error.what()).find("built without yaml-cpp") != std::string::npos);
    MESSAGE("skipped: built without yaml-cpp");
    return false;
  }
}

std::string calculon_system() {
  return
      R"({"matrix": {"float16": {"tflops": 312, "gflops_efficiency": [[128, 0.95], [0, 0.1]]},
                     "float8": {"tflops": 600, "gflops_efficiency": [[1, 0.9]]}},
          "vector": {}, "mem1": {"GiB": 80, "GBps": 2048, "MB_efficiency": [[1, 0.5], [100, 0.9]]},
          "networks": [{"bandwidth": 300, "efficiency": 0.65, "size": 8, "latency": 0.00001,
                        "processor_usage": 0.15},
                       {"bandwidth": 25, "efficiency": 0.9, "size": 64, "latency": 0.00002}]})";
}

}  // namespace sextant::testing
