// Durations come in through these two interfaces and from nowhere else. Implementations are in
// simulator/; the compiler and the tape are handed one.
#pragma once

#include "core/ids.h"
#include "core/physical_graph.h"
#include "core/units.h"
#include "core/work.h"

#include <span>
#include <string_view>

namespace sextant {

class CostModel {
 public:
  virtual ~CostModel() = default;
  // Device time of one act of a compute actor, rounded to picoseconds once, here.
  virtual Duration duration(const Work& work) const = 0;
  // Host time to launch one run.
  virtual Duration launch_cost() const = 0;
  // Whether the device has one kernel for a fused kind (core/fused_kinds.h).
  virtual bool fuses(std::string_view /*fused_kind*/) const { return false; }
};

// One collective or transfer to be timed; core/communication_volume.h fills it.
struct CollectiveCost {
  const Communication* communication = nullptr;
  std::span<const Rank> members;  // in group order
  // Size of the tensor that is global to the group, the splits over other axes taken out: what one
  // member holds where it holds all of it (the largest, if members differ). For all_to_all and
  // transfers: all bytes that move.
  Bytes global_bytes;
  // Of all_to_all and transfers: the most bytes that one member sends or receives.
  Bytes largest_volume;
};

class NetworkModel {
 public:
  virtual ~NetworkModel() = default;
  // Completion per member from arrival per member, both in group order. A completion is never
  // before the member's own arrival. `arrivals` and `done` have as many entries as members.
  virtual void complete(const CollectiveCost& cost, std::span<const Time> arrivals,
                        std::span<Time> done) const = 0;
  // Isolated duration when all members arrive together.
  virtual Duration duration(const CollectiveCost& cost) const = 0;
};

}  // namespace sextant
