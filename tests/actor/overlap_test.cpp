// Which launches have company, by hand: c computation, n a collective; a number in brackets is the
// run waited for.
#include "actor/protocol/overlap.h"

#include <doctest/doctest.h>

#include <array>
#include <cstdint>
#include <vector>

namespace sextant::overlap_test {
namespace {

struct Line {
  QueueRole queue;
  std::vector<ProgramWait> waits = {};
  bool in_group = false;  // starts together with the run before it
};
constexpr QueueRole c = QueueRole::kCompute, n = QueueRole::kCollective;

struct Program {
  std::vector<RunEntry> runs;
  ProgramWaits waits;
};

Program program_of(const std::vector<Line>& lines) {
  Program program;
  auto& [runs, waits] = program;
  std::array<std::int32_t, kNumQueueRoles> units{};
  for (const Line& line : lines) {
    std::int32_t& next = units[static_cast<std::size_t>(line.queue)];
    RunEntry& run = runs.emplace_back();
    run.queue = line.queue;
    run.unit = line.in_group ? next - 1 : next++;
    waits.waits.insert(waits.waits.end(), line.waits.begin(), line.waits.end());
    waits.end.push_back(static_cast<std::int32_t>(waits.waits.size()));
  }
  return program;
}

std::vector<bool> beside(const std::vector<Line>& lines) {
  const Program program = program_of(lines);
  return overlap_of(program.runs, program.waits).beside;
}

double waiting(const std::vector<Line>& lines, const std::vector<double>& seconds) {
  const Program program = program_of(lines);
  return waiting_time(program.runs, program.waits, seconds);
}

}  // namespace

TEST_CASE("computation that waits for every collective at once has no company") {
  CHECK(beside({{c}, {n, {{0}}}, {c, {{1}}}, {n, {{2}}}, {c, {{3}}}}) ==
        std::vector{false, false, false, false, false});
}

TEST_CASE("what stands between a collective and the first that waits for it has company") {
  // The reduction of run 1 is awaited by run 4 alone; run 5 comes behind that.
  CHECK(beside({{c}, {n, {{0}}}, {c}, {c}, {c, {{1}}}, {c}}) ==
        std::vector{false, true, true, true, false, false});
  // To wait for a later collective is to wait for all before it.
  CHECK(beside({{c}, {n, {{0}}}, {c}, {n, {{2}}}, {c, {{3}}}, {c}}) ==
        std::vector{false, true, true, false, false, false});
}

TEST_CASE("members of a launch group are awaited together") {
  CHECK(beside({{c}, {n, {{0}}}, {n, {{0}}, true}, {c, {{1}}}, {c}}) ==
        std::vector{false, false, false, false, false});
}

TEST_CASE("a collective that only the next step waits for has company in both") {
  // Run 2 gathers for run 1 of the next step; run 0 of that step comes before.
  CHECK(beside({{c}, {c, {{2, 1}}}, {n, {{1}}}}) == std::vector{true, false, true});
  // Nobody waits: it is open for ever.
  CHECK(beside({{c}, {n, {{0}}}}) == std::vector{true, true});
}

TEST_CASE("computation waits for what of a collective it does not cover") {
  // Run 1 begins at 1 and ends at 1 + its time; run 3, which waits for it, would begin at 1 + 4.
  const std::vector<Line> reduction{{c}, {n, {{0}}}, {c}, {c, {{1}}}};
  CHECK(waiting(reduction, {1, 3, 4, 1}) == 0);
  CHECK(waiting(reduction, {1, 6, 4, 1}) == 2);
  // The second collective begins when the first has ended: 1 + 3 + 3 instead of 1 + 4.
  CHECK(waiting({{c}, {n, {{0}}}, {n, {{0}}}, {c}, {c, {{2}}}}, {1, 3, 3, 4, 1}) == 2);
}

TEST_CASE("a collective of the step before is waited for in this one") {
  // Run 2 gathers behind run 1 for run 1 of the next step; run 0, of 2 s, is all that covers it.
  const std::vector<Line> gather{{c}, {c, {{2, 1}}}, {n, {{1}}}};
  CHECK(waiting(gather, {2, 1, 2}) == 0);
  CHECK(waiting(gather, {2, 1, 5}) == 3);
}

}  // namespace sextant::overlap_test
