// Devices of the built-in clusters, as values. Rates are those of the vendors' data sheets;
// efficiencies and overheads are assumptions and say so.
#pragma once

#include "core/base/machine_memory.h"
#include "core/costs/cluster.h"

#include <cstdint>
#include <string>

namespace sextant {

DeviceKind h100_sxm();
DeviceKind h200_sxm();
DeviceKind gb200();  // one of the two GPUs of the superchip
DeviceKind a100_sxm_80gb();
DeviceKind a100_sxm_40gb();
DeviceKind v100_sxm2(std::int64_t gigabytes);  // 16 or 32
DeviceKind tpu_v4();
DeviceKind tpu_v5p();

// What a rank has of a core where ranks share cores: what is busy together takes that much longer.
struct CoreShare {
  double share = 1;
  std::string text;  // ", 2 cores for 4 ranks"; empty: a core for each
};
CoreShare core_share(std::int64_t ranks, std::int64_t cores);  // no cores: a core for each

// What each of `ranks` threads of one process has where they take all that the machine has
// available, rounded down by a sixteenth at most, and in words where that is from.
struct MemoryShare {
  Bytes bytes;
  std::string source;
};
MemoryShare memory_share(const MachineMemory& machine, std::int64_t ranks);

// One rank is one thread of a machine.
DeviceKind cpu_core(const CoreShare& core, const MemoryShare& memory);

}  // namespace sextant
