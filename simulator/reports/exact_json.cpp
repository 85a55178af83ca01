// Numbers are integers, or doubles that are read as they were.
#include "simulator/reports/exact_json.h"

#include "simulator/reports/named_parts.h"

#include <nlohmann/json.hpp>

#include <cstddef>
#include <cstdint>

namespace sextant {

nlohmann::ordered_json exact_json(const StepParts& parts) {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const NamedPart& named : kNamedParts) {
    const StepParts::Spread& part = parts.*named.part;
    json.push_back({part.mean_s, part.min_s, part.max_s});
  }
  return json;
}

StepParts step_parts_from(const nlohmann::ordered_json& json) {
  StepParts parts;
  std::size_t place = 0;
  for (const NamedPart& named : kNamedParts) {
    const nlohmann::ordered_json& part = json.at(place++);
    parts.*named.part = {part.at(0), part.at(1), part.at(2)};
  }
  return parts;
}

nlohmann::ordered_json exact_json(const std::vector<LibraryUse>& libraries) {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const LibraryUse& use : libraries)
    json.push_back({use.name, use.bytes.value, static_cast<int>(use.provenance), use.source});
  return json;
}

std::vector<LibraryUse> libraries_from(const nlohmann::ordered_json& json) {
  std::vector<LibraryUse> libraries;
  for (const nlohmann::ordered_json& use : json)
    libraries.push_back({use.at(0), Bytes(use.at(1).get<std::int64_t>()),
                         static_cast<Provenance>(use.at(2).get<int>()), use.at(3)});
  return libraries;
}

}  // namespace sextant
