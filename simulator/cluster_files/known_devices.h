// GPUs by what other programs call them: a PCI device id, a name, a compute capability.
#pragma once

#include "core/costs/cluster.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace sextant {

std::optional<DeviceKind> device_of_pci_id(std::string_view id);  // "0x2330"
// As CUDA says it: "NVIDIA H100 80GB HBM3".
std::optional<DeviceKind> device_of_name(std::string_view name);
// The same numbers, none of which is more than an assumption any more; `why` is said of each.
DeviceKind assumed_device(DeviceKind device, const std::string& why);
// Whose numbers a device has that assumed_device made: a card that nobody described is another one.
std::optional<std::string> stand_in_of(const DeviceKind& device);
// A device of that generation, assumed: 70, 80, 90, 100; something of 80 for others.
DeviceKind device_of_sm(std::int64_t sm);
// Compute capability of a device that is in the table, or that one of it stands in for.
std::optional<std::int64_t> sm_of_device(const DeviceKind& device);

// One NVLink of that generation in one direction, B/s.
double nvlink_rate(std::int64_t sm);

}  // namespace sextant
