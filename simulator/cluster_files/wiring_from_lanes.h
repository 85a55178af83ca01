// Which wiring a table of NVLink lanes between GPUs means.
#pragma once

#include "core/costs/cluster.h"

#include <cstdint>
#include <string>
#include <vector>

namespace sextant {

// Lanes from device to device; zero where there are none.
using LaneTable = std::vector<std::vector<std::int32_t>>;

bool joins_all(const LaneTable& lanes);
// Cables of the table, each once; most lanes that one device has.
std::vector<Cable> cables_of(const LaneTable& lanes);
std::int64_t most_lanes(const LaneTable& lanes);
// Devices that lanes join, as people write them: "0 1, 2 3".
std::string islands_text(const LaneTable& lanes);

// PCIe where no NVLink joins all devices.
NetworkLink pcie_link(double bytes_per_second, Provenance provenance, std::string source);
// NVLinks to a switch, or as `cables` say where there are some: `bytes_per_second` is what all
// lanes of a device carry in one direction, `sm` the compute capability, whose NCCL numbers they
// get.
NetworkLink nvlink_link(double bytes_per_second, Provenance provenance, std::string source,
                        std::int64_t sm, std::vector<Cable> cables = {});
// NICs of a node, shared by its devices.
NetworkLink nic_link(double bytes_per_second, Provenance provenance, std::string source,
                     std::int64_t sm);

}  // namespace sextant
