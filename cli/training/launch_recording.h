// `run --record`: wraps devices and host actors of a run, and makes one recording of what the
// ranks of all processes did (simulator/recordings/README.md).
#pragma once

#include "actor/protocol/device.h"
#include "cli/runs/run_processes.h"
#include "cli/training/run_backend.h"
#include "core/graphs/host_actors.h"
#include "core/graphs/physical_graph.h"
#include "simulator/recordings/recording.h"
#include "simulator/recordings/recording_device.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace sextant {

// Throws Error(kUsage) where so many steps make more launches than a recording holds.
void require_recordable(const PhysicalGraph& graph, std::int64_t steps);

class LaunchRecording {
 public:
  // `devices` keep stamps and have a clock; they and `host` outlive it.
  LaunchRecording(RunDevices& devices, HostActors& host);

  std::vector<Device*> devices();  // by rank; nullptr: in another process
  HostActors& host() { return host_; }

  // After the run, on all processes: the whole file. Times begin with the first devices made.
  std::string text(const RecordingHeader& header, RunProcesses& processes);

 private:
  RunDevices& run_devices_;
  std::vector<std::unique_ptr<RecordingDevice>> devices_;
  RecordingHost host_;
};

}  // namespace sextant
