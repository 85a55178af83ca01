// What a cell runs, in which order: layer by layer, and where backward waits for a collective, the
// weight gradients of the layer before instead of nothing.
#pragma once

#include "compiler/order/partition.h"
#include "compiler/strategy/schedule.h"
#include "core/base/units.h"
#include "core/graphs/physical_graph.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace sextant {

// Modelled time of every actor: by instance of the partition, by actor.
using ActorDurations = std::vector<std::span<const Duration>>;

// When operators start and end if they are issued in a given order on queues that are free at 0 and
// wait for nothing from outside.
class QueueModel {
 public:
  QueueModel(const Partition& partition, const ActorDurations& durations);

  void clear();
  Duration free(QueueRole queue) const { return free_[static_cast<std::size_t>(queue)]; }
  Duration latest() const;
  bool was_taken(StagedOpIndex op) const;
  Duration end_of(StagedOpIndex op) const;
  // When all inputs that were made here are there.
  Duration ready(StagedOpIndex op) const;
  Duration start(StagedOpIndex op) const;
  Duration duration(StagedOpIndex op) const;
  void take(StagedOpIndex op);

 private:
  const Partition* partition_;
  const ActorDurations* durations_;
  std::array<Duration, kNumQueueRoles> free_;
  std::vector<Duration> end_;           // by operator
  std::vector<std::int32_t> taken_in_;  // by operator: the round in which it was taken
  std::int32_t round_ = 1;
};

// The kind of cell a part of the step belongs to; nothing for what happens once per step.
std::optional<CellKind> cell_of(StepPart part, Schedule schedule);

// Operators of one cell of a stage; its micro-batch does not matter.
std::vector<StagedOpIndex> cell_ops(const Partition& partition, const ActorDurations& durations,
                                    Schedule schedule, int stage, const Cell& cell);

}  // namespace sextant
