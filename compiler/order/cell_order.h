// What a cell runs, in which order: layer by layer, and where backward waits for a collective, the
// weight gradients of the layer before instead of nothing.
#pragma once

#include "compiler/order/partition.h"
#include "compiler/strategy/schedule.h"
#include "core/base/table.h"
#include "core/base/units.h"
#include "core/graphs/physical_graph.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace sextant {

// Modelled time of every actor of every instance.
using ActorDurations = Table<StagedInstanceId, std::span<const Duration>>;

// When operators start and end if they are issued in a given order on queues that are free at 0 and
// wait for nothing from outside.
class QueueModel {
 public:
  QueueModel(const Partition& partition, const ActorDurations& durations);

  void clear();
  Duration free(QueueRole queue) const { return free_[queue]; }
  Duration latest() const;
  bool was_taken(StagedOpId op) const;
  Duration end_of(StagedOpId op) const;
  // When all inputs that were made here are there.
  Duration ready(StagedOpId op) const;
  Duration start(StagedOpId op) const;
  Duration duration(StagedOpId op) const;
  void take(StagedOpId op);

 private:
  const Partition* partition_;
  const ActorDurations* durations_;
  FixedTable<QueueRole, Duration, kNumQueueRoles> free_;
  Table<StagedOpId, Duration> end_;
  Table<StagedOpId, std::int32_t> taken_in_;  // the round in which it was taken
  std::int32_t round_ = 1;
};

// The kind of cell a part of the step belongs to; nothing for what happens once per step.
std::optional<CellKind> cell_of(StepPart part, Schedule schedule);

// Operators of one cell of a stage; its micro-batch does not matter.
std::vector<StagedOpId> cell_ops(const Partition& partition, const ActorDurations& durations,
                                 Schedule schedule, int stage, const Cell& cell);

}  // namespace sextant
