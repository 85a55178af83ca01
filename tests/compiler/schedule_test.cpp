// Schedules as orders of cells: each cell once, in order, and the published times and counts.
#include "compiler/schedule.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <tuple>
#include <vector>

namespace sextant {
namespace {

constexpr Schedule kSchedules[] = {Schedule::kGPipe, Schedule::kOneFOneB, Schedule::kZeroBubbleH1};

struct Costs {
  std::int64_t forward = 1, backward = 1, weight_grad = 1;
};

// End of the last cell without transfer times: each cell starts when the stage is free and what it
// needs is there. The slow, obvious way, by trying all stages again and again.
std::int64_t makespan(Schedule schedule, std::int32_t stages, std::int32_t micro_batches,
                      Costs costs) {
  using Key = std::tuple<CellKind, std::int32_t, std::int32_t>;
  std::map<Key, std::int64_t> end;
  std::vector<std::vector<Cell>> cells;
  std::vector<std::size_t> next(static_cast<std::size_t>(stages), 0);
  std::vector<std::int64_t> free(static_cast<std::size_t>(stages), 0);
  for (std::int32_t s = 0; s < stages; ++s)
    cells.push_back(stage_cells(schedule, stages, s, micro_batches));
  const auto needs = [&](const Cell& cell, std::int32_t stage) -> std::optional<Key> {
    if (cell.kind == CellKind::kWeightGrad)
      return Key{CellKind::kBackward, stage, cell.micro_batch};
    if (cell.kind == CellKind::kBackward)
      return stage + 1 < stages ? Key{CellKind::kBackward, stage + 1, cell.micro_batch}
                                : Key{CellKind::kForward, stage, cell.micro_batch};
    if (stage == 0) return std::nullopt;
    return Key{CellKind::kForward, stage - 1, cell.micro_batch};
  };
  for (bool moved = true; moved;) {
    moved = false;
    for (std::int32_t s = 0; s < stages; ++s) {
      const auto stage = static_cast<std::size_t>(s);
      while (next[stage] < cells[stage].size()) {
        const Cell cell = cells[stage][next[stage]];
        const std::optional<Key> need = needs(cell, s);
        if (need && !end.contains(*need)) break;
        const std::int64_t cost = cell.kind == CellKind::kForward    ? costs.forward
                                  : cell.kind == CellKind::kBackward ? costs.backward
                                                                     : costs.weight_grad;
        free[stage] = std::max(free[stage], need ? end[*need] : 0) + cost;
        end[{cell.kind, s, cell.micro_batch}] = free[stage];
        ++next[stage];
        moved = true;
      }
    }
  }
  for (std::size_t stage = 0; stage < cells.size(); ++stage)
    REQUIRE(next[stage] == cells[stage].size());
  return *std::max_element(free.begin(), free.end());
}

// Micro-batches between their F and the cell that uses its activations last.
std::int32_t most_alive(Schedule schedule, std::int32_t stages, std::int32_t stage,
                        std::int32_t micro_batches) {
  const CellKind last = splits_backward(schedule) ? CellKind::kWeightGrad : CellKind::kBackward;
  std::int32_t alive = 0, most = 0;
  for (const Cell& cell : stage_cells(schedule, stages, stage, micro_batches)) {
    alive += cell.kind == CellKind::kForward ? 1 : 0;
    most = std::max(most, alive);
    alive -= cell.kind == last ? 1 : 0;
  }
  return most;
}

TEST_CASE("every schedule runs every cell of every micro-batch once and in order") {
  for (const Schedule schedule : kSchedules)
    for (std::int32_t stages = 1; stages <= 5; ++stages)
      for (std::int32_t stage = 0; stage < stages; ++stage)
        for (std::int32_t micro_batches = 1; micro_batches <= 9; ++micro_batches) {
          std::array<std::int32_t, 3> count = {0, 0, 0};
          for (const Cell& cell : stage_cells(schedule, stages, stage, micro_batches))
            CHECK(cell.micro_batch == count[static_cast<std::size_t>(cell.kind)]++);
          CHECK(count[0] == micro_batches);
          CHECK(count[1] == micro_batches);
          CHECK(count[2] == (splits_backward(schedule) ? micro_batches : 0));
        }
}

TEST_CASE("GPipe and 1F1B take (m + p - 1) times the time of a micro-batch") {
  for (const Schedule schedule : {Schedule::kGPipe, Schedule::kOneFOneB})
    for (std::int32_t p = 1; p <= 6; ++p)
      for (std::int32_t m = 1; m <= 12; ++m)
        CHECK(makespan(schedule, p, m, {1, 2, 0}) == 3 * (m + p - 1));
}

TEST_CASE("ZB-H1 with F = B = W takes 3 m + p - 1 from as many micro-batches as stages on") {
  for (std::int32_t p = 1; p <= 8; ++p)
    for (std::int32_t m = p; m <= 20; ++m)
      CHECK(makespan(Schedule::kZeroBubbleH1, p, m, {1, 1, 1}) == 3 * m + p - 1);
}

TEST_CASE("1F1B keeps min(m, p - stage) micro-batches alive, GPipe m, ZB-H1 at most p") {
  for (std::int32_t p = 1; p <= 6; ++p)
    for (std::int32_t m = 1; m <= 12; ++m)
      for (std::int32_t stage = 0; stage < p; ++stage) {
        CHECK(most_alive(Schedule::kOneFOneB, p, stage, m) == std::min(m, p - stage));
        CHECK(most_alive(Schedule::kGPipe, p, stage, m) == m);
        CHECK(most_alive(Schedule::kZeroBubbleH1, p, stage, m) <= std::min(m, p));
      }
}

TEST_CASE("G42: 1F1B of four stages with two micro-batches ends after 10, with one after 8") {
  CHECK(makespan(Schedule::kOneFOneB, 4, 2, {1, 1, 0}) == 10);
  CHECK(makespan(Schedule::kOneFOneB, 4, 1, {1, 1, 0}) == 8);
}

}  // namespace
}  // namespace sextant
