// The machine room as a value: nodes of equal devices and the links between them.
#pragma once

#include "core/base/dtype.h"
#include "core/base/ids.h"
#include "core/base/units.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sextant {

// Where a number comes from: printed beside it, never lost.
enum class Provenance : std::uint8_t { kAssumed, kPublished, kCalibrated, kMeasured };

std::string_view to_string(Provenance provenance);

struct Sourced {
  double value = 0;
  Provenance provenance = Provenance::kAssumed;
  std::string source;  // "H100 SXM datasheet", "cluster bench on host X"
};

struct PeakRate {
  DType dtype = DType::kF32;
  Sourced flops_per_second;  // dense matrix rate
};

// What single kernels took, each with the work that cost models know it by (core/graphs/work.h).
struct MeasuredKernel {
  std::string kernel;  // "matmul:4096x1024x512", "elementwise"
  double flops = 0;
  Bytes bytes;  // read and written
  double seconds = 0;
  bool operator==(const MeasuredKernel&) const = default;
};

struct MeasuredKernels {
  DType dtype = DType::kF32;  // that matmuls multiply
  Provenance provenance = Provenance::kMeasured;
  std::string source;  // "cluster bench on NVIDIA H200, driver 580.65.06, 2026-01-31"
  std::vector<MeasuredKernel> kernels;
  // Relative, of kernels that are not in the table (simulator/costs/models.h). Zero: not known.
  double expected_error = 0;
};

// Device memory in use that no plan of ours allocates, in bytes.
struct LibraryMemory {
  Sourced context;       // CUDA context and loaded modules
  Sourced communicator;  // NCCL, per group that the device communicates in
  Sourced workspace;     // cuBLAS and cuDNN
};

// What one family of kernels (core/graphs/kernel_names.h) reaches where that is not what large
// products, copies and the start of a kernel say. Zero: as those.
struct KernelRate {
  std::string kernel;               // "attention"
  std::optional<DType> dtype = {};  // of the computation; nothing: of every one
  Sourced flops_efficiency = {};    // of the peak, 0..1
  Sourced bytes_efficiency = {};    // of the bandwidth, 0..1
  Sourced overhead = {};            // s on the device per kernel
  // What a row costs beyond its extent: of attention keys that a query does not see (blocks above
  // the diagonal, their begin and end), of norms elements.
  Sourced lost_extent = {};
  Sourced pair_time = {};  // of attention: s of a pair of a query and a key beside its products
};

struct DeviceKind {
  std::string name;  // "H100-SXM5-80GB", "cpu"
  Bytes memory;
  std::vector<PeakRate> peaks;
  Sourced memory_bandwidth;   // B/s
  Sourced matmul_efficiency;  // of the peak, 0..1, for large matmuls
  Sourced memory_efficiency;  // of the bandwidth, 0..1, for memory-bound kernels
  Sourced launch_overhead;    // s on the host per launch
  Sourced kernel_overhead;    // s on the device per kernel
  // A matmul's output tiles (edge x edge elements) run in waves over this many units, and filling
  // and draining a tile costs as much as half an edge of its inner extent. Zero: neither is
  // modelled.
  Sourced matmul_tile;
  Sourced matmul_units;
  // Rate of a compute kernel while a communication runs on the same device, and of a communication
  // while a kernel does, as a share of the rate alone, 0..1. Only timed mode knows of either.
  Sourced compute_beside_communication{1.0, Provenance::kAssumed, {}};
  Sourced communication_beside_compute{1.0, Provenance::kAssumed, {}};
  // Of a processor whose figures were measured: s of the yardstick (backends/cpu/yardstick.h) at
  // the speed that they are for. Zero: unknown.
  Sourced yardstick;
  LibraryMemory library_memory = {};
  // Fused kinds (core/graphs/fused_kinds.h) that the device has one kernel for, sorted.
  std::vector<std::string> fused = {};
  std::vector<KernelRate> rates = {};
  // Where they are, they are believed before peaks and efficiencies.
  std::optional<MeasuredKernels> measured = {};
  std::string memory_source = {};  // where `memory` comes from; empty: nobody said
};

// How the devices of a node, or the nodes of a group, are wired.
enum class Wiring : std::uint8_t {
  kSwitch,          // each to one crossbar
  kFullyConnected,  // each to each other, its bandwidth divided among them
  kRing,            // each to two neighbours, its bandwidth divided between them
  kTorus,           // a ring per dimension
  kCables,          // as NetworkLink::cables says
};

std::string_view to_string(Wiring wiring);

// `lanes` links side by side between two ends, in both directions.
struct Cable {
  std::int32_t first = 0, second = 0;
  std::int32_t lanes = 1;
};

// One way of a library to run a collective over a kind of link, with what measurement says of it.
// Where a link has several for a primitive, the fastest is taken at each size, as tuners do.
struct CollectiveAlgorithm {
  std::string name;            // "ring", "tree", "nvls", "pairwise"
  std::string protocol;        // "ll", "ll128", "simple"
  Sourced base_latency;        // s per collective
  Sourced step_latency;        // s per dependent step
  Sourced efficiency;          // of the link's bandwidth, for large messages
  std::string primitive = {};  // "all_gather"; empty: all that the algorithm can run
  // Time in which a member copies its own part, as a share of the time in which it sends one.
  Sourced own_copy{0.0, Provenance::kAssumed, {}};
};

// One kind of connection, alpha-beta: t = alpha + size / bandwidth.
struct NetworkLink {
  std::string name;   // "nvlink", "ib-hdr"
  Sourced bandwidth;  // B/s per device and direction
  Sourced latency;    // s per message
  // Of the bandwidth, 0..1, for large messages.
  Sourced efficiency{1.0, Provenance::kAssumed, {}};
  Wiring wiring = Wiring::kSwitch;
  std::vector<std::int64_t> extents = {};  // of a torus
  std::vector<Cable> cables = {};  // of kCables; each lane has bandwidth / most lanes of an end
  std::vector<CollectiveAlgorithm> algorithms = {};
};

// Groups of nodes that share a link to the other groups, from the inside out: leaves of a fat tree,
// pods. The bandwidth is per device, so what a leaf is oversubscribed by shows here.
struct OuterTier {
  std::int64_t nodes_per_group = 1;
  NetworkLink link;
};

// Nodes with other devices than the rest of the cluster.
struct OtherDevices {
  std::int64_t first_node = 0, num_nodes = 1;
  DeviceKind device;
};

struct Cluster {
  std::string name;
  std::int64_t nodes = 1;
  std::int64_t devices_per_node = 1;
  DeviceKind device;
  NetworkLink intra_node;
  NetworkLink inter_node;  // per device (its share of the NICs)
  std::vector<OuterTier> outer_tiers = {};
  std::vector<OtherDevices> other_devices = {};

  std::int64_t num_devices() const { return nodes * devices_per_node; }
  std::int64_t node_of(Rank rank) const { return rank.value / devices_per_node; }
  // The kind of device that a rank has: that of its node.
  const DeviceKind& device_of(Rank rank) const;
};

}  // namespace sextant
