// One walk in the order of issue.
#include "compiler/order/order_times.h"

#include "core/base/at.h"

#include <algorithm>
#include <array>

namespace sextant {

std::span<const StagedOpIndex> ops_of(const Partition& partition, const OrderedRun& run) {
  const InstanceSpec& instance = at(partition.instances(), run.instance);
  return std::span(instance.ops)
      .subspan(static_cast<std::size_t>(run.first_actor), static_cast<std::size_t>(run.num_actors));
}

QueueRole queue_of(const Partition& partition, const OrderedRun& run) {
  return partition.queue(ops_of(partition, run).front());
}

std::vector<RunTimes> order_times(std::span<const OrderedRun> stage, const Partition& partition) {
  std::array<Time, kNumQueueRoles> free;
  std::vector<Time> made_at(
      partition.graph().tensors.size());  // by the last act of the producer so far
  const auto earliest = [&](const OrderedRun& run) {
    Time begin = free[static_cast<std::size_t>(queue_of(partition, run))];
    for (const StagedOpIndex index : ops_of(partition, run)) {
      if (partition.is_transfer(index)) begin = std::max(begin, run.begin);
      for (const StagedTensorIndex in : partition.reads(index))
        if (!partition.is_state(in)) begin = std::max(begin, at(made_at, in));
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
      free[static_cast<std::size_t>(queue_of(partition, run))] = all.end;
      for (const StagedOpIndex index : ops_of(partition, run))
        for (const StagedTensorIndex out : partition.makes(index)) at(made_at, out) = all.end;
    }
  }
  return times;
}

}  // namespace sextant
