// The devices that `sextant run` trains on: CPU ranks, or GPUs.
#pragma once

#include "actor/protocol/device.h"
#include "cli/runs/run_processes.h"
#include "cli/verbs.h"
#include "core/base/units.h"
#include "core/costs/arena_room.h"
#include "core/costs/cluster.h"
#include "core/graphs/physical_graph.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace sextant {

class RunDevices {
 public:
  virtual ~RunDevices() = default;
  // By rank, prepared; nullptr: in another process.
  virtual std::vector<Device*> devices() = 0;
  // Ends what waits, with this reason, and begins nothing more. Any thread.
  virtual void abort(const std::string& reason) = 0;
  // Launches of the ranks of this process that are over, where the devices count them. Any thread.
  virtual std::optional<std::int64_t> finished_launches() const { return std::nullopt; }
  // Since the epoch of the stamps; nothing where the devices have a clock of their own. Any thread.
  virtual std::optional<Time> now() const { return std::nullopt; }
  // What was under way when ranks failed, a line each, where the devices know it.
  virtual std::vector<std::string> stuck() const { return {}; }
};

// Refuses options that the backend does not have, and a machine that lacks it: Error(kUsage) or
// Error(kDevice).
void require_backend(const RunArguments& arguments, bool are_several_processes);

// What processes must have in common besides the plan, so that their ranks meet and compute alike.
std::vector<CommonFact> common_facts_of_devices(const RunArguments& arguments);

// "2 CPU ranks", "NVIDIA H200", "4 ranks on 1 x NVIDIA H200".
std::string devices_text(const RunArguments& arguments, std::int64_t ranks);

// Whether ranks share no library and no network: times say nothing of one. Refuses what the cards
// of this machine cannot do; of several processes, which never do so, CudaWorld refuses it.
bool exchanges_locally(const RunArguments& arguments, std::int64_t ranks,
                       bool are_several_processes);

// Who hears of devices.
struct RunListeners {
  // What a device does otherwise than asked.
  std::function<void(const std::string&)> notice;
  // Ranks do not end: whoever hears it ends the process. On a thread of its own.
  std::function<void(const std::string&)> give_up;
};

// With `profile` the devices keep stamps. Memory is free again when they are destroyed. Of several
// processes all have theirs, or none has.
std::unique_ptr<RunDevices> make_run_devices(const PhysicalGraph& graph,
                                             const RunArguments& arguments, std::uint64_t seed,
                                             bool profile, const RunListeners& listeners,
                                             const RunProcesses& processes);

// What arenas may grow to on the devices that run. Nothing where that is not known: of GPUs, whose
// free memory is seen when they are prepared.
std::optional<ArenaRoom> room_for_arenas(const Cluster& planned, const RunArguments& arguments);

// What data may take of this machine's memory beside the ranks that run: half of what they leave.
Bytes room_for_data(const PhysicalGraph& graph, const RunArguments& arguments);

}  // namespace sextant
