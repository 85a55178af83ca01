// One walk in the order of issue.
#include "compiler/order/order_times.h"

#include "core/base/table.h"

#include <algorithm>

namespace sextant {

// What a run reads of its own queue is there as soon as the queue is free.
std::vector<RunTimes> order_times(std::span<const OrderedRun> stage, const RunForms& forms) {
  const Partition& partition = forms.partition();
  FixedTable<QueueRole, Time, kNumQueueRoles> free;
  Table<StagedTensorId, Time> made_at(
      partition.graph().tensors.size());  // by the last act of the producer so far
  const auto earliest = [&](const OrderedRun& run) {
    const RunForms::Form& form = forms.of(run);
    Time begin = free[form.queue];
    if (form.is_transfer) begin = std::max(begin, run.begin);
    for (const StagedTensorId in : forms.reads(form))
      if (!partition.is_state(in)) begin = std::max(begin, made_at[in]);
    return begin;
  };
  std::vector<RunTimes> times;
  times.reserve(stage.size());
  while (times.size() < stage.size()) {
    const std::size_t first = times.size();
    std::size_t end = first + 1;
    const LaunchGroupId group = stage[first].launch_group;
    while (group.is_valid() && end < stage.size() && stage[end].launch_group == group) ++end;
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
      const RunForms::Form& form = forms.of(run);
      free[form.queue] = all.end;
      for (const StagedTensorId out : forms.makes(form)) made_at[out] = all.end;
    }
  }
  return times;
}

}  // namespace sextant
