// The numbers of the built-in clusters, each with its source text.

#include "simulator/builtin_clusters.h"

#include "core/fused_kinds.h"

#include <utility>

namespace sextant {

namespace {

Sourced published(double value, std::string source) {
  return {value, Provenance::kPublished, std::move(source)};
}

Sourced assumed(double value, std::string source) {
  return {value, Provenance::kAssumed, std::move(source)};
}

constexpr double kTera = 1e12, kGiga = 1e9;
constexpr double kMicro = 1e-6;
constexpr std::int64_t kGigabyte = 1'000'000'000;

// What data sheets do not say, alike for the GPUs here.
void assume_gpu_overheads(DeviceKind& device) {
  device.matmul_efficiency = assumed(0.80, "large bf16 matmuls of cuBLASLt, no measurement here");
  device.memory_efficiency = assumed(0.85, "large copies, no measurement here");
  device.launch_overhead = assumed(4 * kMicro, "one asynchronous launch on the host");
  device.kernel_overhead = assumed(2 * kMicro, "start and drain of one kernel");
  device.matmul_tile = assumed(128, "edge of a common cuBLAS output tile");
  device.fused = fused_kind_names();
}

NetworkLink nvlink(std::string name, double bytes_per_second, std::string source) {
  NetworkLink link;
  link.name = std::move(name);
  link.bandwidth = published(bytes_per_second, std::move(source));
  link.latency = assumed(1.5 * kMicro, "one hop of an NCCL ring");
  link.efficiency = assumed(0.80, "NCCL rings over NVLink, no measurement here");
  return link;
}

NetworkLink infiniband(std::string name, double bytes_per_second, std::string source) {
  NetworkLink link;
  link.name = std::move(name);
  link.bandwidth = published(bytes_per_second, std::move(source));
  link.latency = assumed(5 * kMicro, "one hop of an NCCL ring between nodes");
  link.efficiency = assumed(0.90, "NCCL over RDMA, no measurement here");
  return link;
}

Cluster gpu_cluster(std::string name, std::int64_t nodes) {
  Cluster cluster;
  cluster.name = std::move(name);
  cluster.nodes = nodes;
  cluster.devices_per_node = 8;
  assume_gpu_overheads(cluster.device);
  return cluster;
}

Cluster dgx_h100(std::int64_t nodes) {
  const std::string sheet = "NVIDIA H100 SXM5 data sheet";
  Cluster cluster = gpu_cluster("dgx-h100", nodes);
  DeviceKind& device = cluster.device;
  device.name = "H100-SXM5-80GB";
  device.memory = Bytes(80 * kGigabyte);
  device.peaks = {{DType::kBF16, published(989.4 * kTera, sheet + ", dense")},
                  {DType::kF16, published(989.4 * kTera, sheet + ", dense")},
                  {DType::kF32, published(67 * kTera, sheet + ", no tensor cores")},
                  {DType::kF64, published(67 * kTera, sheet + ", tensor cores")}};
  device.memory_bandwidth = published(3350 * kGiga, sheet);
  device.matmul_units = published(132, "streaming multiprocessors of H100 SXM5");
  cluster.intra_node =
      nvlink("nvlink4", 450 * kGiga, "NVLink 4: 900 GB/s both directions together");
  cluster.inter_node = infiniband("ib-ndr", 50 * kGiga, "one 400 Gb/s NDR port per GPU");
  return cluster;
}

Cluster dgx_a100(std::int64_t nodes) {
  const std::string sheet = "NVIDIA A100 80GB SXM data sheet";
  Cluster cluster = gpu_cluster("dgx-a100", nodes);
  DeviceKind& device = cluster.device;
  device.name = "A100-SXM4-80GB";
  device.memory = Bytes(80 * kGigabyte);
  device.peaks = {{DType::kBF16, published(312 * kTera, sheet + ", dense")},
                  {DType::kF16, published(312 * kTera, sheet + ", dense")},
                  {DType::kF32, published(19.5 * kTera, sheet + ", no tensor cores")},
                  {DType::kF64, published(19.5 * kTera, sheet + ", tensor cores")}};
  device.memory_bandwidth = published(2039 * kGiga, sheet);
  device.matmul_units = published(108, "streaming multiprocessors of A100");
  cluster.intra_node =
      nvlink("nvlink3", 300 * kGiga, "NVLink 3: 600 GB/s both directions together");
  cluster.inter_node = infiniband("ib-hdr", 25 * kGiga, "one 200 Gb/s HDR port per GPU");
  return cluster;
}

Cluster v100x8(std::int64_t nodes, std::int64_t gigabytes) {
  const std::string sheet = "NVIDIA V100 SXM2 data sheet";
  Cluster cluster = gpu_cluster(gigabytes == 16 ? "v100x8" : "v100x8-32gb", nodes);
  DeviceKind& device = cluster.device;
  device.name = "V100-SXM2-" + std::to_string(gigabytes) + "GB";
  device.memory = Bytes(gigabytes * kGigabyte);
  device.peaks = {{DType::kF16, published(125 * kTera, sheet + ", tensor cores")},
                  {DType::kF32, published(15.7 * kTera, sheet)},
                  {DType::kF64, published(7.8 * kTera, sheet)}};
  device.memory_bandwidth = published(900 * kGiga, sheet);
  device.matmul_units = published(80, "streaming multiprocessors of V100");
  cluster.intra_node =
      nvlink("nvlink2", 150 * kGiga, "NVLink 2: 300 GB/s both directions together");
  cluster.inter_node =
      infiniband("ib-edr", 12.5 * kGiga * 4 / 8, "four 100 Gb/s EDR ports shared by 8 GPUs");
  return cluster;
}

// One rank is one thread of a machine; links are copies through its memory. With fewer cores than
// ranks every rank gets its share of a core: what is busy together takes that much longer.
Cluster cpu_ranks(std::int64_t ranks, std::int64_t cores) {
  const bool shared = cores > 0 && cores < ranks;
  const double share = shared ? static_cast<double>(cores) / static_cast<double>(ranks) : 1.0;
  const std::string shared_text =
      shared ? ", " + std::to_string(cores) + " cores for " + std::to_string(ranks) + " ranks" : "";
  Cluster cluster;
  cluster.name = "cpu";
  cluster.nodes = 1;
  cluster.devices_per_node = ranks;
  DeviceKind& device = cluster.device;
  device.name = "cpu-core";
  device.memory = Bytes(std::int64_t{2} << 30);
  const std::string peak = "one core at 3 GHz with two 8-wide f32 multiply-adds per cycle";
  device.peaks = {{DType::kF32, assumed(96 * kGiga * share, peak + shared_text)},
                  {DType::kF64, assumed(48 * kGiga * share, "half of f32" + shared_text)}};
  device.memory_bandwidth =
      assumed(15 * kGiga * share, "one core streaming through caches and memory" + shared_text);
  device.matmul_efficiency = assumed(0.60, "BLAS on small f32 matrices");
  device.memory_efficiency = assumed(0.50, "element-wise loops, some with exp and tanh in them");
  device.launch_overhead = assumed(1 * kMicro, "one entry of a queue");
  device.kernel_overhead = assumed(1 * kMicro, "one call of a kernel");
  device.matmul_tile = assumed(0, "not modelled");
  device.matmul_units = assumed(0, "not modelled");
  cluster.intra_node.name = "memory";
  cluster.intra_node.bandwidth =
      assumed(4 * kGiga * share, "copy or sum through shared memory" + shared_text);
  cluster.intra_node.latency = assumed(5 * kMicro, "wake-up of a waiting thread");
  cluster.intra_node.efficiency = assumed(1.0, "included in the bandwidth");
  return cluster;
}

using Values = std::vector<std::int64_t>;

}  // namespace

const std::vector<BuiltinCluster>& builtin_clusters() {
  static const std::vector<BuiltinCluster> clusters = {
      {"cpu",
       "ranks on the cores of one machine, a core each or sharing them",
       {{"ranks", 4}, {"cores", 0}},
       [](const Values& is) { return cpu_ranks(is[0], is[1]); }},
      {"dgx-a100",
       "nodes of 8 A100 80 GB, NVLink 3, HDR InfiniBand",
       {{"nodes"}},
       [](const Values& is) { return dgx_a100(is[0]); }},
      {"dgx-h100",
       "nodes of 8 H100 80 GB, NVLink 4, NDR InfiniBand",
       {{"nodes"}},
       [](const Values& is) { return dgx_h100(is[0]); }},
      {"v100x8",
       "nodes of 8 V100 16 GB, NVLink 2, EDR InfiniBand",
       {{"nodes"}},
       [](const Values& is) { return v100x8(is[0], 16); }},
      {"v100x8-32gb",
       "nodes of 8 V100 32 GB, NVLink 2, EDR InfiniBand",
       {{"nodes"}},
       [](const Values& is) { return v100x8(is[0], 32); }},
  };
  return clusters;
}

}  // namespace sextant
