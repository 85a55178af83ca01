// Which devices and links each built-in cluster has, and what its settings do.
#include "simulator/clusters/builtin_clusters.h"

#include "core/base/check.h"
#include "simulator/clusters/builtin_devices.h"
#include "simulator/clusters/builtin_links.h"
#include "simulator/clusters/cluster_rules.h"
#include "simulator/clusters/published.h"

#include <algorithm>
#include <utility>

namespace sextant {

namespace {

using Values = std::vector<std::int64_t>;

Cluster cluster_of(std::string name, std::int64_t nodes, std::int64_t devices_per_node,
                   DeviceKind device, NetworkLink intra_node, NetworkLink inter_node) {
  Cluster cluster;
  cluster.name = std::move(name);
  cluster.nodes = nodes;
  cluster.devices_per_node = devices_per_node;
  cluster.device = std::move(device);
  cluster.intra_node = std::move(intra_node);
  cluster.inter_node = std::move(inter_node);
  return cluster;
}

// No memory: all that the machine has available.
Cluster cpu_ranks(std::int64_t ranks, std::int64_t cores, Bytes memory) {
  const CoreShare core = core_share(ranks, cores);
  const MemoryShare share = memory == Bytes(0) ? memory_share(machine_memory(), ranks)
                                               : MemoryShare{memory, "as asked for: memory="};
  return cluster_of("cpu", 1, ranks, cpu_core(core, share), shared_memory(core), {});
}

// NVIDIA's reference architectures join groups of 20 DGX A100, 32 DGX H100 or H200, 8 NVL72 racks.
constexpr std::int64_t kA100Unit = 20, kHopperUnit = 32, kRacksOfUnit = 8;

// A fat tree: `leaf` nodes under each leaf switch, whose way up is narrower than its way down by
// the factor `oversubscription`. Neither given: one switch for all.
struct FatTree {
  std::int64_t leaf = 0, oversubscription = 0, usual_leaf = 1;
};

Cluster with_leaves(Cluster cluster, const FatTree& tree) {
  if (tree.leaf == 0 && tree.oversubscription == 0) return cluster;
  const std::int64_t leaf = tree.leaf > 0 ? tree.leaf : tree.usual_leaf;
  require(cluster.nodes > leaf && cluster.nodes % leaf == 0, ErrorCode::kUsage,
          "{} nodes of cluster '{}' do not divide into two or more leaves of {}: wanted another "
          "leaf=N, or none",
          cluster.nodes, cluster.name, leaf);
  cluster.outer_tiers = {
      {leaf, spine(cluster.inter_node, std::max<std::int64_t>(tree.oversubscription, 1))}};
  return cluster;
}

const std::vector<BuiltinSetting> kFatTree = {{"nodes"}, {"leaf", 0}, {"oversubscription", 0}};

// Slices are nodes: a torus each, the data center's network between them.
Cluster tpu(std::string name, DeviceKind device, const Values& settings, double link_rate,
            std::string source) {
  std::vector<std::int64_t> extents(settings.begin(), settings.end() - 1);
  std::int64_t devices = 1;
  for (const std::int64_t extent : extents) {
    require(devices <= kMaxDevices / extent, ErrorCode::kUsage,
            "cluster '{}' has more than {} devices", name, kMaxDevices);
    devices *= extent;
  }
  return cluster_of(std::move(name), settings.back(), devices, std::move(device),
                    tpu_torus(std::move(extents), link_rate, std::move(source)), data_center_50g());
}

const std::vector<BuiltinSetting> kTorus = {{"x", 4}, {"y", 4}, {"z", 4}, {"nodes"}};

}  // namespace

const std::vector<BuiltinCluster>& builtin_clusters() {
  static const std::vector<BuiltinCluster> clusters = {
      {"cpu",
       "ranks on the cores and in the memory of one machine, a core each or sharing them",
       {{"ranks", 4}, {"cores", 0}, {"memory", 0, SettingKind::kBytes}},
       [](const Values& is) { return cpu_ranks(is[0], is[1], Bytes(is[2])); }},
      {"dgx-a100", "nodes of 8 A100 80 GB, NVLink 3, HDR InfiniBand", kFatTree,
       [](const Values& is) {
         return with_leaves(
             cluster_of("dgx-a100", is[0], 8, a100_sxm_80gb(), nvlink3(), infiniband_hdr()),
             {is[1], is[2], kA100Unit});
       }},
      {"dgx-h100", "nodes of 8 H100 80 GB, NVLink 4, NDR InfiniBand", kFatTree,
       [](const Values& is) {
         return with_leaves(cluster_of("dgx-h100", is[0], 8, h100_sxm(), nvlink4(),
                                       infiniband_ndr(GpuGeneration::kHopper)),
                            {is[1], is[2], kHopperUnit});
       }},
      {"dgx1-v100",
       "nodes of 8 V100 16 GB in a hybrid cube mesh of NVLink 2, 100 Gb/s per node",
       {{"nodes", 4}},
       [](const Values& is) {
         return cluster_of("dgx1-v100", is[0], 8, v100_sxm2(16), hybrid_cube_mesh(),
                           ethernet_100g_shared());
       }},
      {"gb200-nvl72", "racks of 72 GB200 GPUs under one NVLink 5 switch, NDR InfiniBand", kFatTree,
       [](const Values& is) {
         return with_leaves(cluster_of("gb200-nvl72", is[0], 72, gb200(), nvlink5(),
                                       infiniband_ndr(GpuGeneration::kBlackwell)),
                            {is[1], is[2], kRacksOfUnit});
       }},
      {"hgx-h200", "nodes of 8 H200 141 GB, NVLink 4, NDR InfiniBand", kFatTree,
       [](const Values& is) {
         return with_leaves(cluster_of("hgx-h200", is[0], 8, h200_sxm(), nvlink4(),
                                       infiniband_ndr(GpuGeneration::kHopper)),
                            {is[1], is[2], kHopperUnit});
       }},
      {"tpu-v4", "tori of TPU v4, six links of 50 GB/s per device", kTorus,
       [](const Values& is) {
         Cluster cluster = tpu("tpu-v4", tpu_v4(), is, 50 * kGiga,
                               "TPU v4, ISCA 2023 (arXiv 2304.01433), table 4: links of 50 GB/s");
         cluster.inter_node.bandwidth.provenance = Provenance::kAssumed;  // another generation's
         return cluster;
       }},
      {"tpu-v5p", "tori of TPU v5p, six links of 100 GB/s per device", kTorus,
       [](const Values& is) {
         return tpu("tpu-v5p", tpu_v5p(), is, 100 * kGiga,
                    "Google Cloud documentation, TPU v5p: 1,200 GB/s per chip over 6 links, both "
                    "directions together");
       }},
      {"v100x8",
       "nodes of 8 V100 16 GB, NVLink 2, EDR InfiniBand",
       {{"nodes"}},
       [](const Values& is) {
         return cluster_of("v100x8", is[0], 8, v100_sxm2(16), nvlink2(), infiniband_edr_shared());
       }},
      {"v100x8-32gb",
       "nodes of 8 V100 32 GB, NVLink 2, EDR InfiniBand",
       {{"nodes"}},
       [](const Values& is) {
         return cluster_of("v100x8-32gb", is[0], 8, v100_sxm2(32), nvlink2(),
                           infiniband_edr_shared());
       }},
  };
  return clusters;
}

}  // namespace sextant
