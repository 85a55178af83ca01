// A device kind as JSON: peaks, memory, overheads, fused kinds, measured kernels.
#pragma once

#include "core/costs/cluster.h"
#include "core/text/json_reader.h"

#include <nlohmann/json_fwd.hpp>

namespace sextant {

DeviceKind read_device(const JsonCursor& cursor);
nlohmann::ordered_json to_json(const DeviceKind& device);

}  // namespace sextant
