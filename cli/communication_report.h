// Communication of a step as runs keep it and verbs tell it: predicted beside measured.
#pragma once

#include "core/base/ids.h"
#include "core/graphs/physical_graph.h"
#include "core/text/json_reader.h"
#include "simulator/steps/communication_use.h"

#include <nlohmann/json_fwd.hpp>

#include <functional>
#include <optional>
#include <string>

namespace sextant {

class Console;

// Seconds per step, as `run.json` and `compare` have them (experiments/METRICS.md).
nlohmann::ordered_json to_json(const CommunicationUse& use);
// Refuses what `to_json` does not write.
CommunicationUse communication_use_from_json(const JsonCursor& json);

struct CommunicationComparison {
  CommunicationUse predicted, measured;
  std::string mode;  // of the simulation
  // Of a predicted and a measured time, for a table.
  std::function<std::string(double, double)> error_text;
};

// Nothing where there is no communication.
void say(const CommunicationComparison& both, const Console& console);
nlohmann::ordered_json to_json(const CommunicationComparison& both);

}  // namespace sextant
