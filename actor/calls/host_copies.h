// Which runs copy the contents that host actors touch, on a device whose host actors work in
// buffers of their own, apart from the arena (DeviceSpec::host_steps).
#pragma once

#include "core/base/ids.h"
#include "core/base/units.h"
#include "core/graphs/physical_graph.h"

#include <cstdint>
#include <optional>
#include <vector>

namespace sextant {

// One content of one register, the same place each step.
struct HostBuffer {
  InstanceId instance;
  std::int32_t reg = 0, content = 0;
  Bytes in_arena;  // offset
  Bytes on_host;   // offset in the host's memory of one step, a multiple of kBufferAlignment
  Bytes size;      // of the rank's part
};

// What one run does beside its actors: `in` before them, `out` behind them.
struct HostCopiesOfRun {
  std::vector<std::int32_t> in, out;  // in HostCopies::buffers
  // Earlier runs of the step, on other queues, that it waits for in addition to what the protocol
  // says: those that made the copy it reads, and those that read what it copies over.
  std::vector<RunId> after;
};

// What a loader filled is copied by the first run, in issue order, that reads it; what a host actor
// reads by the last that writes it. A step begins when the one before is over, on all queues.
struct HostCopies {
  std::vector<HostBuffer> buffers;
  Bytes host_size;  // of one step
  std::vector<HostCopiesOfRun> runs;

  std::optional<std::int32_t> find(InstanceId instance, std::int32_t reg,
                                   std::int32_t content) const;
};

// Throws Error(kDevice) naming a register that is state and read by a host actor: no run of the
// first step has written it.
HostCopies host_copies(const PhysicalGraph& graph, Rank rank);

}  // namespace sextant
