// The interface of actors that run on the host (loader, metrics): outside the issue order, on a
// host thread, Req and Ack posted when done.
#pragma once

#include "core/base/ids.h"
#include "core/graphs/physical_graph.h"

#include <cstddef>
#include <cstdint>
#include <span>

namespace sextant {

// One act of one host actor. The loader fills `outputs` (one span per output register); a metrics
// actor reads `inputs`. Spans are empty on a device without memory. `shards` of the registers
// follow from their layouts and `rank` (core/graphs/physical_graph.h, shard_of).
struct HostAct {
  Rank rank;
  const PhysicalGraph* graph = nullptr;
  const Instance* instance = nullptr;
  const Actor* actor = nullptr;  // under the name that it has in this instance
  std::int64_t step = 0;
  std::int64_t act = 0;  // within the step
  std::span<const std::span<const std::byte>> inputs;
  std::span<const std::span<std::byte>> outputs;
  // On a device whose host actors have buffers of their own, for so many steps: `outputs` hold what
  // this act left there so many steps ago. 0: others have written there since.
  std::int64_t kept_steps = 0;
};

class HostActors {
 public:
  virtual ~HostActors() = default;
  // May be called from several threads at once: per rank, one that loads and one that reads.
  virtual void act(const HostAct& act) = 0;
};

}  // namespace sextant
