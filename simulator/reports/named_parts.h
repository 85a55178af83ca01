// The parts of a step with their names, in the order of tables and documents.
#pragma once

#include "simulator/modes/simulate.h"

#include <algorithm>
#include <string>
#include <string_view>

namespace sextant {

struct NamedPart {
  std::string_view name;
  StepParts::Spread StepParts::*part;

  // "exposed_communication"
  std::string key() const {
    std::string key(name);
    std::replace(key.begin(), key.end(), ' ', '_');
    return key;
  }
};

inline constexpr NamedPart kNamedParts[] = {
    {"compute", &StepParts::compute},
    {"optimizer", &StepParts::optimizer},
    {"exposed communication", &StepParts::exposed_communication},
    {"host", &StepParts::host},
    {"bubble", &StepParts::bubble}};

}  // namespace sextant
