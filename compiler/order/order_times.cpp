// One walk in the order of issue.
#include "compiler/order/order_times.h"

#include "core/base/at.h"
#include "core/base/table.h"

#include <algorithm>

namespace sextant {

std::span<const StagedOpId> ops_of(const Partition& partition, const OrderedRun& run) {
  const InstanceSpec& instance = partition.instances()[run.instance];
  return std::span(instance.ops).subspan(at(run.first_actor), at(run.num_actors));
}

QueueRole queue_of(const Partition& partition, const OrderedRun& run) {
  return partition.queue(ops_of(partition, run).front());
}

std::vector<RunTimes> order_times(std::span<const OrderedRun> stage, const Partition& partition) {
  FixedTable<QueueRole, Time, kNumQueueRoles> free;
  Table<StagedTensorId, Time> made_at(
      partition.graph().tensors.size());  // by the last act of the producer so far
  const auto earliest = [&](const OrderedRun& run) {
    Time begin = free[queue_of(partition, run)];
    for (const StagedOpId index : ops_of(partition, run)) {
      if (partition.is_transfer(index)) begin = std::max(begin, run.begin);
      for (const StagedTensorId in : partition.reads(index))
        if (!partition.is_state(in)) begin = std::max(begin, made_at[in]);
    }
    return begin;
  };
  std::vector<RunTimes> times;
  times.reserve(stage.size());
  while (times.size() < stage.size()) {
    const std::size_t first = times.size();
    std::size_t end = first + 1;
    const std::int32_t group = stage[first].launch_group;
    while (group >= 0 && end < stage.size() && stage[end].launch_group == group) ++end;
    const std::span<const OrderedRun> together = stage.subspan(first, end - first);
    RunTimes all;
    Duration longest;
    for (const OrderedRun& run : together) {
      all.begin = std::max(all.begin, earliest(run));
      longest = std::max(longest, run.end - run.begin);
    }
    all.end = all.begin + longest;
    for (const OrderedRun& run : together) {
      times.push_back(all);
      free[queue_of(partition, run)] = all.end;
      for (const StagedOpId index : ops_of(partition, run))
        for (const StagedTensorId out : partition.makes(index)) made_at[out] = all.end;
    }
  }
  return times;
}

}  // namespace sextant
