// The machine room as a value: nodes of equal devices and the links between them.
#pragma once

#include "core/dtype.h"
#include "core/ids.h"
#include "core/units.h"

#include <cstdint>
#include <optional>
#include <string>
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

// What single kernels took, each with the work that cost models know it by (core/work.h).
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
  // and draining a tile costs as much as one edge of its inner extent. Zero: neither is modelled.
  Sourced matmul_tile;
  Sourced matmul_units;
  // Fused kinds (core/fused_kinds.h) that the device has one kernel for, sorted.
  std::vector<std::string> fused = {};
  // Where they are, they are believed before peaks and efficiencies.
  std::optional<MeasuredKernels> measured = {};
};

// One kind of connection, alpha-beta: t = alpha + size / bandwidth.
struct NetworkLink {
  std::string name;   // "nvlink", "ib-hdr"
  Sourced bandwidth;  // B/s per device and direction
  Sourced latency;    // s per message
  // Of the bandwidth, 0..1, for large messages.
  Sourced efficiency{1.0, Provenance::kAssumed, {}};
};

struct Cluster {
  std::string name;
  std::int64_t nodes = 1;
  std::int64_t devices_per_node = 1;
  DeviceKind device;
  NetworkLink intra_node;
  NetworkLink inter_node;  // per device (its share of the NICs)

  std::int64_t num_devices() const { return nodes * devices_per_node; }
  std::int64_t node_of(Rank rank) const { return rank.value / devices_per_node; }
};

}  // namespace sextant
