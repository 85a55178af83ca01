// The numbers of a cluster as tables: how each is written, and what it may be. One table serves the
// reader, the writer and the rules.
#pragma once

#include "core/costs/cluster.h"
#include "simulator/clusters/quantity_limits.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace sextant {

enum class ValueRange : std::uint8_t { kPositive, kNotNegative, kShare, kShareOrNone };

bool is_in(double value, ValueRange range);
std::string_view text_of(ValueRange range);  // "above zero"

// What is wrong with a number, "not above zero" or "too much: at most 1e+18 B/s"; empty: nothing.
std::string fault_of(double value, ValueRange range, QuantityKind kind);

template <typename Owner>
struct Field {
  std::string_view key;
  Sourced Owner::*member;
  ValueRange range;
  QuantityKind kind;
  bool required = true;
};

inline constexpr Field<DeviceKind> kDeviceFields[] = {
    {"memory_bandwidth", &DeviceKind::memory_bandwidth, ValueRange::kPositive,
     QuantityKind::kBytesPerSecond},
    {"matmul_efficiency", &DeviceKind::matmul_efficiency, ValueRange::kShare, QuantityKind::kShare},
    {"memory_efficiency", &DeviceKind::memory_efficiency, ValueRange::kShare, QuantityKind::kShare},
    {"launch_overhead", &DeviceKind::launch_overhead, ValueRange::kNotNegative,
     QuantityKind::kSeconds},
    {"kernel_overhead", &DeviceKind::kernel_overhead, ValueRange::kNotNegative,
     QuantityKind::kSeconds},
    {"matmul_tile", &DeviceKind::matmul_tile, ValueRange::kNotNegative, QuantityKind::kCount,
     false},
    {"matmul_units", &DeviceKind::matmul_units, ValueRange::kNotNegative, QuantityKind::kCount,
     false},
    {"compute_beside_communication", &DeviceKind::compute_beside_communication, ValueRange::kShare,
     QuantityKind::kShare, false},
    {"communication_beside_compute", &DeviceKind::communication_beside_compute, ValueRange::kShare,
     QuantityKind::kShare, false},
    {"yardstick", &DeviceKind::yardstick, ValueRange::kNotNegative, QuantityKind::kSeconds, false},
};

inline constexpr Field<KernelRate> kRateFields[] = {
    {"flops_efficiency", &KernelRate::flops_efficiency, ValueRange::kShareOrNone,
     QuantityKind::kShare, false},
    {"bytes_efficiency", &KernelRate::bytes_efficiency, ValueRange::kShareOrNone,
     QuantityKind::kShare, false},
    {"overhead", &KernelRate::overhead, ValueRange::kNotNegative, QuantityKind::kSeconds, false},
    {"lost_extent", &KernelRate::lost_extent, ValueRange::kNotNegative, QuantityKind::kCount,
     false},
    {"pair_time", &KernelRate::pair_time, ValueRange::kNotNegative, QuantityKind::kSeconds, false},
};

inline constexpr Field<LibraryMemory> kLibraryFields[] = {
    {"context", &LibraryMemory::context, ValueRange::kNotNegative, QuantityKind::kBytes, false},
    {"communicator", &LibraryMemory::communicator, ValueRange::kNotNegative, QuantityKind::kBytes,
     false},
    {"workspace", &LibraryMemory::workspace, ValueRange::kNotNegative, QuantityKind::kBytes, false},
};

inline constexpr Field<NetworkLink> kLinkFields[] = {
    {"bandwidth", &NetworkLink::bandwidth, ValueRange::kPositive, QuantityKind::kBytesPerSecond},
    {"latency", &NetworkLink::latency, ValueRange::kNotNegative, QuantityKind::kSeconds},
    {"efficiency", &NetworkLink::efficiency, ValueRange::kShare, QuantityKind::kShare, false},
};

inline constexpr Field<CollectiveAlgorithm> kAlgorithmFields[] = {
    {"base_latency", &CollectiveAlgorithm::base_latency, ValueRange::kNotNegative,
     QuantityKind::kSeconds},
    {"step_latency", &CollectiveAlgorithm::step_latency, ValueRange::kNotNegative,
     QuantityKind::kSeconds},
    {"efficiency", &CollectiveAlgorithm::efficiency, ValueRange::kShare, QuantityKind::kShare},
    {"own_copy", &CollectiveAlgorithm::own_copy, ValueRange::kShareOrNone, QuantityKind::kShare,
     false},
};

}  // namespace sextant
