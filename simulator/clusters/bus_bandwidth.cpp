// Factors by primitive.

#include "simulator/clusters/bus_bandwidth.h"

#include "core/base/check.h"

namespace sextant {

double bus_bandwidth_factor(Primitive primitive, std::int64_t members) {
  require(members >= 1, ErrorCode::kUsage, "a group of {} members", members);
  const double n = static_cast<double>(members);
  switch (primitive) {
    case Primitive::kAllReduce:
      return 2 * (n - 1) / n;
    case Primitive::kAllGather:
    case Primitive::kReduceScatter:
    case Primitive::kAllToAll:
      return (n - 1) / n;
    case Primitive::kBroadcast:
    case Primitive::kShift:
    case Primitive::kTransfer:
      return 1;
  }
  throw Error(ErrorCode::kInternal,
              fmt::format("no bus bandwidth of primitive {}", static_cast<int>(primitive)));
}

BytesPerSecond algorithm_bandwidth(Bytes size, Duration duration) {
  require(duration > Duration(0), ErrorCode::kUsage, "bandwidth of {} bytes in {} ps", size.value,
          duration.value);
  return static_cast<double>(size.value) / to_seconds(duration);
}

BytesPerSecond bus_bandwidth(Primitive primitive, std::int64_t members, Bytes size,
                             Duration duration) {
  return bus_bandwidth_factor(primitive, members) * algorithm_bandwidth(size, duration);
}

}  // namespace sextant
