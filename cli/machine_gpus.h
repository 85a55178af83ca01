// What this machine's own programs and libraries say of its GPUs.
#pragma once

#include "core/base/units.h"

#include <optional>
#include <string>
#include <vector>

namespace sextant {

struct MachineGpu {
  std::string name;  // as the driver says it: "NVIDIA H200"
  Bytes memory;
  std::string driver, bus_id;
};

// Lines of `nvidia-smi --query-gpu=name,memory.total,driver_version,pci.bus_id
// --format=csv,noheader,nounits`. Throws Error(kDevice) for lines that are none.
std::vector<MachineGpu> parse_gpu_query(const std::string& text);

// Pairs that `nvidia-smi topo -p2p r` does not call OK: "GPU0 and GPU1 (CNS)".
std::vector<std::string> parse_unreachable(const std::string& text);

// What a program of the path prints; nothing where there is none, or it fails.
std::optional<std::string> output_of(const std::string& command);

// The GPUs; throws Error(kDevice) where no driver answers.
std::vector<MachineGpu> machine_gpus();

}  // namespace sextant
