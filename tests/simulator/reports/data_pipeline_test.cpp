// Data actors beside a step, by hand: with registers a, b, c and a step of length T.
#include "simulator/reports/data_pipeline.h"

#include "core/base/error.h"

#include <doctest/doctest.h>

#include <vector>

namespace sextant::data_pipeline_test {
namespace {

constexpr StepReads kStep{Duration(100), Duration(10), Duration(60)};

DataSchedule schedule(const std::vector<std::int64_t>& costs, std::int32_t registers,
                      const StepReads& step = kStep) {
  DataPipeline pipeline{{}, registers};
  for (const std::int64_t cost : costs)
    pipeline.actors.push_back({"actor" + std::to_string(pipeline.actors.size()), Duration(cost)});
  return schedule_data(pipeline, step);
}

}  // namespace

TEST_CASE("actors that keep up cost the step nothing, and none limits it") {
  for (const std::int32_t registers : {1, 2, 5}) {
    const DataSchedule found = schedule({10, 40, 30, 5}, registers);
    CHECK(found.step == Duration(100));
    CHECK(!found.limiting.has_value());
    CHECK(found.busy[1] == doctest::Approx(0.4));
  }
}

TEST_CASE(
    "with two registers the slowest actor sets the time, with one two neighbours take turns") {
  // Two: max(20, 150, 90, 5). One: the decoder cannot go on before the augmenter is done with what
  // it has, 150 + 90; the reader waits likewise, 20 + 150.
  const DataSchedule two = schedule({20, 150, 90, 5}, 2);
  CHECK(two.step == Duration(150));
  CHECK(two.limiting == 1U);
  CHECK(two.busy[1] == doctest::Approx(1.0));
  const DataSchedule one = schedule({20, 150, 90, 5}, 1);
  CHECK(one.step == Duration(240));
  CHECK(one.limiting == 1U);
}

TEST_CASE("delivery waits until the step has read the last batch, and the step for delivery") {
  // One after the other: 50 from the step's first read to its last, then 80 of delivery.
  const DataSchedule found = schedule({80}, 2);
  CHECK(found.step == Duration(130));
  CHECK(found.limiting == 0U);
  // 40 fit into what the step does before and behind its reads, 100 - 50.
  CHECK(schedule({50}, 2).step == Duration(100));
  CHECK(schedule({51}, 2).step == Duration(101));
}

TEST_CASE(
    "more registers, faster actors and longer steps never make a step shorter than they may") {
  std::int64_t before = 1'000'000;
  for (const std::int32_t registers : {1, 2, 3, 8}) {
    const std::int64_t step = schedule({70, 120, 110, 20}, registers).step.value;
    CHECK(step <= before);
    CHECK(step >= 120);
    before = step;
  }
  for (std::int64_t cost = 0; cost <= 300; cost += 20) {
    const DataSchedule slow = schedule({10, cost, 10}, 1), fast = schedule({10, cost / 2, 10}, 1);
    CHECK(fast.step <= slow.step);
    CHECK(slow.step >= kStep.length);
  }
}

TEST_CASE("the acts that are shown lie inside one step and fill the limiting actor's time") {
  const DataSchedule found = schedule({20, 150, 90, 5}, 2);
  std::vector<std::int64_t> filled(4, 0);
  for (const DataAct& act : found.acts) {
    CHECK(act.begin >= Duration(0));
    CHECK(act.end <= found.step);
    CHECK(act.begin < act.end);
    filled[act.actor] += (act.end - act.begin).value;
  }
  CHECK(filled == std::vector<std::int64_t>{20, 150, 90, 5});
}

TEST_CASE("without a register nothing can be made") { CHECK_THROWS_AS(schedule({10}, 0), Error); }

}  // namespace sextant::data_pipeline_test
