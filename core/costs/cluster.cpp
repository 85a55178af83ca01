// Names of what clusters are made of, and which device a rank has.
#include "core/costs/cluster.h"

namespace sextant {

std::string_view to_string(Provenance provenance) {
  switch (provenance) {
    case Provenance::kAssumed:
      return "assumed";
    case Provenance::kPublished:
      return "published";
    case Provenance::kCalibrated:
      return "calibrated";
    case Provenance::kMeasured:
      return "measured";
  }
  return "?";
}

std::string_view to_string(Wiring wiring) {
  switch (wiring) {
    case Wiring::kSwitch:
      return "switch";
    case Wiring::kFullyConnected:
      return "fully_connected";
    case Wiring::kRing:
      return "ring";
    case Wiring::kTorus:
      return "torus";
    case Wiring::kCables:
      return "cables";
  }
  return "?";
}

const DeviceKind& Cluster::device_of(Rank rank) const {
  const std::int64_t node = node_of(rank);
  for (const OtherDevices& other : other_devices) {
    if (node >= other.first_node && node < other.first_node + other.num_nodes) return other.device;
  }
  return device;
}

}  // namespace sextant
