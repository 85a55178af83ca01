// Durations come in through these two interfaces and from nowhere else. Implementations are in
// simulator/; the compiler and the tape are handed one.
#pragma once

#include "core/ids.h"
#include "core/physical_graph.h"
#include "core/units.h"
#include "core/work.h"

#include <span>

namespace sextant {

class CostModel {
 public:
  virtual ~CostModel() = default;
  // Device time of one act of a compute actor, rounded to picoseconds once, here.
  virtual Duration duration(const Work& work) const = 0;
  // Host time to launch one run.
  virtual Duration launch_cost() const = 0;
};

// One collective or transfer to be timed.
struct CollectiveCost {
  const Communication* communication = nullptr;
  std::span<const Rank> members;  // in group order
  Bytes global_bytes;             // size of the global tensor: |T| of 02-sbp-and-boxing
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
