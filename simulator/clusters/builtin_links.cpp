// The numbers of the built-in links, each with its source text.
#include "simulator/clusters/builtin_links.h"

#include "simulator/clusters/published.h"

#include <algorithm>
#include <string>
#include <utility>

namespace sextant {

namespace {

NetworkLink nvlink(std::string name, double bytes_per_second, std::string source,
                   GpuGeneration generation) {
  return nvlinks_of(std::move(name), published(bytes_per_second, std::move(source)), generation);
}

NetworkLink ports(std::string name, double bytes_per_second, std::string source,
                  GpuGeneration generation) {
  return ports_of(std::move(name), published(bytes_per_second, std::move(source)), generation);
}

}  // namespace

NetworkLink nvlinks_of(std::string name, Sourced bandwidth, GpuGeneration generation) {
  NetworkLink link;
  link.name = std::move(name);
  link.bandwidth = std::move(bandwidth);
  link.latency = assumed(1.5 * kMicro, "one hop of an NCCL ring, no measurement here");
  link.efficiency = assumed(0.80, "NCCL rings over NVLink, no measurement here");
  link.algorithms = nccl_in_node(generation);
  return link;
}

NetworkLink ports_of(std::string name, Sourced bandwidth, GpuGeneration generation) {
  NetworkLink link;
  link.name = std::move(name);
  link.bandwidth = std::move(bandwidth);
  link.latency = assumed(5 * kMicro, "one hop of an NCCL ring between nodes, no measurement here");
  link.efficiency = assumed(0.90, "NCCL over RDMA, no measurement here");
  link.algorithms = nccl_between_nodes(generation);
  return link;
}

NetworkLink nvlink2() {
  return nvlink("nvlink2", 150 * kGiga, "NVLink 2: 300 GB/s both directions together",
                GpuGeneration::kVolta);
}
NetworkLink nvlink3() {
  return nvlink("nvlink3", 300 * kGiga, "NVLink 3: 600 GB/s both directions together",
                GpuGeneration::kAmpere);
}
NetworkLink nvlink4() {
  return nvlink("nvlink4", 450 * kGiga, "NVLink 4: 900 GB/s both directions together",
                GpuGeneration::kHopper);
}
NetworkLink nvlink5() {
  return nvlink("nvlink5", 900 * kGiga, "NVLink 5: 1.8 TB/s both directions together",
                GpuGeneration::kBlackwell);
}

// Lanes as `nvidia-smi topo -m` shows them on a DGX-1 with V100 (NVIDIA DGX-1 with Tesla V100
// System Architecture, WP-08437): NV1 and NV2 edges, six lanes at each GPU.
NetworkLink hybrid_cube_mesh() {
  NetworkLink link = nvlink2();
  link.wiring = Wiring::kCables;
  link.cables = {{0, 1, 1}, {0, 2, 1}, {0, 3, 2}, {0, 4, 2}, {1, 2, 2}, {1, 3, 1},
                 {1, 5, 2}, {2, 3, 2}, {2, 6, 1}, {3, 7, 1}, {4, 5, 1}, {4, 6, 1},
                 {4, 7, 2}, {5, 6, 2}, {5, 7, 1}, {6, 7, 2}};
  return link;
}

NetworkLink infiniband_edr_shared() {
  return ports("ib-edr", 12.5 * kGiga * 4 / 8, "four 100 Gb/s EDR ports shared by 8 GPUs",
               GpuGeneration::kVolta);
}
NetworkLink ethernet_100g_shared() {
  return ports("rdma-100g", 12.5 * kGiga / 8,
               "OneFlow (arXiv 2110.15032): 100 Gb/s per node, shared by 8 GPUs",
               GpuGeneration::kVolta);
}
NetworkLink infiniband_hdr() {
  return ports("ib-hdr", 25 * kGiga, "one 200 Gb/s HDR port per GPU", GpuGeneration::kAmpere);
}
NetworkLink infiniband_ndr(GpuGeneration generation) {
  return ports("ib-ndr", 50 * kGiga, "one 400 Gb/s NDR port per GPU", generation);
}
NetworkLink data_center_50g() {
  NetworkLink link;
  link.name = "dcn";
  link.bandwidth = published(
      6.25 * kGiga, "Google Cloud documentation, TPU v5p: 50 Gb/s of data center network per chip");
  link.latency = assumed(20 * kMicro, "TCP between hosts");
  link.efficiency = assumed(0.80, "TCP, no measurement here");
  return link;
}

NetworkLink spine(const NetworkLink& leaf, std::int64_t oversubscription) {
  NetworkLink link = leaf;
  const auto ratio = static_cast<double>(oversubscription);
  link.name = leaf.name + "-spine";
  link.algorithms.clear();  // those of the leaf say what rings between nodes do
  link.bandwidth =
      assumed(leaf.bandwidth.value / ratio, leaf.bandwidth.source + ", leaves oversubscribed " +
                                                std::to_string(oversubscription) + ":1");
  link.latency =
      assumed(leaf.latency.value + 1 * kMicro, leaf.latency.source + ", two switches more");
  return link;
}

NetworkLink tpu_torus(std::vector<std::int64_t> extents, double link_rate, std::string source) {
  const auto wired =
      std::count_if(extents.begin(), extents.end(), [](std::int64_t extent) { return extent > 1; });
  NetworkLink link;
  link.name = "ici";
  link.bandwidth = published(link_rate * 2 * static_cast<double>(wired), std::move(source));
  link.latency = assumed(1 * kMicro, "one hop of a torus, no measurement here");
  link.efficiency = assumed(0.90, "large transfers, no measurement here");
  link.wiring = Wiring::kTorus;
  link.extents = std::move(extents);
  return link;
}

NetworkLink shared_memory(const CoreShare& core) {
  NetworkLink link;
  link.name = "memory";
  link.bandwidth = assumed(4 * kGiga * core.share, "copy or sum through shared memory" + core.text);
  link.latency = assumed(5 * kMicro, "wake-up of a waiting thread");
  link.efficiency = assumed(1.0, "included in the bandwidth");
  return link;
}

}  // namespace sextant
