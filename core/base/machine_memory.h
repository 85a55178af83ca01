// What memory the machine that we run on has for a process, as Linux says it. Nothing is allocated.
#pragma once

#include "core/base/units.h"

#include <filesystem>
#include <string>

namespace sextant {

struct MachineMemory {
  Bytes total;        // of the machine, or of the control group where that may have less
  Bytes available;    // of the total, without making anybody swap
  std::string limit;  // the control group that has less than the machine; empty: none
};

// Control groups of both versions, from the process's own up to the root; files that are missing
// limit nothing. `root` is where `proc` and `sys` lie, for tests. Throws Error(kDevice) where
// /proc/meminfo does not say.
MachineMemory machine_memory(const std::filesystem::path& root = "/");

}  // namespace sextant
