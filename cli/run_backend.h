// The devices that `sextant run` trains on: CPU ranks, or one GPU.
#pragma once

#include "actor/device.h"
#include "cli/verbs.h"
#include "core/physical_graph.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace sextant {

class RunDevices {
 public:
  virtual ~RunDevices() = default;
  virtual std::vector<Device*> devices() = 0;  // by rank, prepared
  // Ends what waits, with this reason. Any thread.
  virtual void abort(const std::string& reason) = 0;
};

// Refuses options that the backend does not have, ranks that it does not run, and a machine that
// lacks it: Error(kUsage), Error(kInfeasible) or Error(kDevice).
void require_backend(const RunArguments& arguments);
void require_ranks(const RunArguments& arguments, const PhysicalGraph& graph);

// "2 CPU ranks", "NVIDIA H200".
std::string devices_text(const RunArguments& arguments, const PhysicalGraph& graph);

// With `profile` the devices keep stamps. `notice` gets what a device does otherwise than asked.
// Memory is free again when they are destroyed.
std::unique_ptr<RunDevices> make_run_devices(const PhysicalGraph& graph,
                                             const RunArguments& arguments, std::uint64_t seed,
                                             bool profile,
                                             const std::function<void(const std::string&)>& notice);

}  // namespace sextant
