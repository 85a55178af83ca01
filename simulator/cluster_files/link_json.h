// A network link as JSON: its numbers, its wiring and what its collectives were measured to take.
#pragma once

#include "core/costs/cluster.h"
#include "core/text/json_reader.h"

#include <nlohmann/json_fwd.hpp>

namespace sextant {

NetworkLink read_link(const JsonCursor& cursor);
nlohmann::ordered_json to_json(const NetworkLink& link);

}  // namespace sextant
