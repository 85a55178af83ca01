// The numbers of a cluster as tables: how each is written, and what it may be. One table serves the
// reader, the writer and the rules.
#pragma once

#include "core/costs/cluster.h"
#include "simulator/clusters/quantity_limits.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace sextant {

enum class Range : std::uint8_t { kPositive, kNotNegative, kShare, kShareOrNone };

bool is_in(double value, Range range);
std::string_view text_of(Range range);  // "above zero"

// What is wrong with a number, "not above zero" or "too much: at most 1e+18 B/s"; empty: nothing.
std::string fault_of(double value, Range range, QuantityKind kind);

template <typename Owner>
struct Field {
  std::string_view key;
  Sourced Owner::*member;
  Range range;
  QuantityKind kind;
  bool required = true;
};

inline constexpr Field<DeviceKind> kDeviceFields[] = {
    {"memory_bandwidth", &DeviceKind::memory_bandwidth, Range::kPositive,
     QuantityKind::kBytesPerSecond},
    {"matmul_efficiency", &DeviceKind::matmul_efficiency, Range::kShare, QuantityKind::kShare},
    {"memory_efficiency", &DeviceKind::memory_efficiency, Range::kShare, QuantityKind::kShare},
    {"launch_overhead", &DeviceKind::launch_overhead, Range::kNotNegative, QuantityKind::kSeconds},
    {"kernel_overhead", &DeviceKind::kernel_overhead, Range::kNotNegative, QuantityKind::kSeconds},
    {"matmul_tile", &DeviceKind::matmul_tile, Range::kNotNegative, QuantityKind::kCount, false},
    {"matmul_units", &DeviceKind::matmul_units, Range::kNotNegative, QuantityKind::kCount, false},
    {"compute_beside_communication", &DeviceKind::compute_beside_communication, Range::kShare,
     QuantityKind::kShare, false},
    {"communication_beside_compute", &DeviceKind::communication_beside_compute, Range::kShare,
     QuantityKind::kShare, false},
    {"yardstick", &DeviceKind::yardstick, Range::kNotNegative, QuantityKind::kSeconds, false},
};

inline constexpr Field<KernelRate> kRateFields[] = {
    {"flops_efficiency", &KernelRate::flops_efficiency, Range::kShareOrNone, QuantityKind::kShare,
     false},
    {"bytes_efficiency", &KernelRate::bytes_efficiency, Range::kShareOrNone, QuantityKind::kShare,
     false},
    {"overhead", &KernelRate::overhead, Range::kNotNegative, QuantityKind::kSeconds, false},
    {"lost_extent", &KernelRate::lost_extent, Range::kNotNegative, QuantityKind::kCount, false},
    {"pair_time", &KernelRate::pair_time, Range::kNotNegative, QuantityKind::kSeconds, false},
};

inline constexpr Field<LibraryMemory> kLibraryFields[] = {
    {"context", &LibraryMemory::context, Range::kNotNegative, QuantityKind::kBytes, false},
    {"communicator", &LibraryMemory::communicator, Range::kNotNegative, QuantityKind::kBytes,
     false},
    {"workspace", &LibraryMemory::workspace, Range::kNotNegative, QuantityKind::kBytes, false},
};

inline constexpr Field<NetworkLink> kLinkFields[] = {
    {"bandwidth", &NetworkLink::bandwidth, Range::kPositive, QuantityKind::kBytesPerSecond},
    {"latency", &NetworkLink::latency, Range::kNotNegative, QuantityKind::kSeconds},
    {"efficiency", &NetworkLink::efficiency, Range::kShare, QuantityKind::kShare, false},
};

inline constexpr Field<CollectiveAlgorithm> kAlgorithmFields[] = {
    {"base_latency", &CollectiveAlgorithm::base_latency, Range::kNotNegative,
     QuantityKind::kSeconds},
    {"step_latency", &CollectiveAlgorithm::step_latency, Range::kNotNegative,
     QuantityKind::kSeconds},
    {"efficiency", &CollectiveAlgorithm::efficiency, Range::kShare, QuantityKind::kShare},
    {"own_copy", &CollectiveAlgorithm::own_copy, Range::kShareOrNone, QuantityKind::kShare, false},
};

}  // namespace sextant
