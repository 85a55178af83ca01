// Links of the built-in clusters, as values: rates from data sheets, latencies and efficiencies
// assumed.
#pragma once

#include "core/costs/cluster.h"
#include "simulator/clusters/builtin_devices.h"
#include "simulator/clusters/nccl_numbers.h"

#include <cstdint>
#include <string>
#include <vector>

namespace sextant {

// Of GPUs: what NCCL runs over the link, with the latency and efficiency that no data sheet has.
NetworkLink nvlinks_of(std::string name, Sourced bandwidth, GpuGeneration generation);
NetworkLink ports_of(std::string name, Sourced bandwidth, GpuGeneration generation);

// Of one GPU, all its NVLinks together, in one direction.
NetworkLink nvlink2();  // 6 links, V100
NetworkLink nvlink3();  // 12 links, A100
NetworkLink nvlink4();  // 18 links, H100 and H200
NetworkLink nvlink5();  // 18 links, Blackwell

// The 8 GPUs of a DGX-1 V100: two squares with diagonals, joined to a cube; six links per GPU.
NetworkLink hybrid_cube_mesh();

NetworkLink infiniband_edr_shared();                   // four ports of 100 Gb/s for 8 GPUs
NetworkLink ethernet_100g_shared();                    // one port of 100 Gb/s for 8 GPUs
NetworkLink infiniband_hdr();                          // one port of 200 Gb/s per GPU
NetworkLink infiniband_ndr(GpuGeneration generation);  // one port of 400 Gb/s per GPU
NetworkLink data_center_50g();                         // 50 Gb/s per TPU

// The level above a leaf of a fat tree: the share of a device's bandwidth that leaves its group.
NetworkLink spine(const NetworkLink& leaf, std::int64_t oversubscription);

// A torus of TPUs: two links of `link_rate` per device and dimension. Dimensions of extent 1 have
// no links; nothing else has a name for the whole.
NetworkLink tpu_torus(std::vector<std::int64_t> extents, double link_rate, std::string source);

// Copies through the memory of one machine, slower where ranks share cores.
NetworkLink shared_memory(const CoreShare& core);

}  // namespace sextant
