// Whether this process is one of several that a launcher started.
#pragma once

#include "backends/hosts/process_group.h"

#include <optional>

namespace sextant {

// What the environment says; nothing: this process is alone.
std::optional<Launched> launched();
// Alone, or the first of several, which does what processes cannot share.
bool is_first_process();

}  // namespace sextant
