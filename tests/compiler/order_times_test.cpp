// Times of an order by forms of runs against a walk over every operator of every run.
#include "compiler/order/order_times.h"

#include "compiler/order/issue_order.h"
#include "compiler/order/join_runs.h"
#include "compiler/order/partition.h"
#include "compiler/order/run_forms.h"
#include "compiler/order/stage_program.h"
#include "compiler/strategy/strategy.h"
#include "compiler/training/training_graph.h"
#include "compiler/words/stage.h"
#include "core/base/table.h"
#include "tests/compiler/toy_models.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <span>
#include <vector>

namespace sextant::order_times_test {
namespace {

// The definition, operator by operator: what a run reads of its own queue counts as well.
std::vector<RunTimes> times_by_operators(std::span<const OrderedRun> stage,
                                         const Partition& partition) {
  const auto queue_of = [&](const OrderedRun& run) {
    return partition.queue(ops_of(partition, run).front());
  };
  FixedTable<QueueRole, Time, kNumQueueRoles> free;
  Table<StagedTensorId, Time> made_at(partition.graph().tensors.size());
  std::vector<RunTimes> times;
  while (times.size() < stage.size()) {
    std::size_t end = times.size() + 1;
    const LaunchGroupId group = stage[times.size()].launch_group;
    while (group.is_valid() && end < stage.size() && stage[end].launch_group == group) ++end;
    const auto together = stage.subspan(times.size(), end - times.size());
    RunTimes all;
    Duration longest;
    for (const OrderedRun& run : together) {
      longest = std::max(longest, run.end - run.begin);
      all.begin = std::max(all.begin, free[queue_of(run)]);
      for (const StagedOpId op : ops_of(partition, run)) {
        if (partition.is_transfer(op)) all.begin = std::max(all.begin, run.begin);
        for (const StagedTensorId in : partition.reads(op))
          if (!partition.is_state(in)) all.begin = std::max(all.begin, made_at[in]);
      }
    }
    all.end = all.begin + longest;
    for (const OrderedRun& run : together) {
      times.push_back(all);
      free[queue_of(run)] = all.end;
      for (const StagedOpId op : ops_of(partition, run))
        for (const StagedTensorId out : partition.makes(op)) made_at[out] = all.end;
    }
  }
  return times;
}

// Every actor lasts by what it is, so that queues wait for each other in changing ways.
std::vector<std::vector<Duration>> some_durations(const Partition& partition) {
  std::vector<std::vector<Duration>> durations;
  for (const InstanceSpec& instance : partition.instances()) {
    std::vector<Duration>& own = durations.emplace_back();
    for (const StagedOpId op : instance.ops) own.push_back(Duration(1 + op.value * 7919 % 101));
  }
  return durations;
}

TEST_CASE("an order has the same times by forms of runs as by every operator of them") {
  std::size_t waiting = 0;  // runs of which the order's own times are not these
  for (const char* strategy :
       {"dp=2 zero=3", "tp=2 sp=on pieces=2",
        "dp=2 tp=2 pp=2 schedule=interleaved virtual=2 zero=1", "dp=2 pp=2 schedule=zb-h1 zero=2",
        "pp=4 recompute=full", "dp=2 micro_batch=2 zero=3 recompute=1"}) {
    CAPTURE(strategy);
    const Strategy parsed = parse_strategy(strategy);
    ToyGpt model{.layers = 4, .hidden = 32, .vocab = 40, .ffn = 64, .compute = DType::kBF16};
    model.batch = parsed.dp * parsed.micro_batch;
    const StagedGraph staged =
        make_staged_graph(make_training_graph(toy_gpt(model), parsed), parsed, 8, nullptr);
    const Partition partition(staged);
    const std::vector<std::vector<Duration>> lasting = some_durations(partition);
    const ActorDurations durations(lasting.begin(), lasting.end());
    IssueOrder order =
        make_issue_order(partition, make_stage_programs(partition, parsed.schedule, durations),
                         durations, {.launch_groups = true});
    const auto check = [&] {
      const RunForms forms(partition, order);
      for (const std::vector<OrderedRun>& stage : order) {
        const std::vector<RunTimes> found = order_times(stage, forms);
        const std::vector<RunTimes> expected = times_by_operators(stage, partition);
        REQUIRE(found.size() == expected.size());
        for (std::size_t run = 0; run < found.size(); ++run) {
          CHECK(found[run].begin == expected[run].begin);
          CHECK(found[run].end == expected[run].end);
          waiting += found[run].begin != stage[run].begin ? 1 : 0;
        }
      }
    };
    check();
    join_runs(order, RunForms(partition, order));
    check();
  }
  CHECK(waiting > 0);
}

}  // namespace
}  // namespace sextant::order_times_test
