// Schedules as orders of cells: each cell once, in order, and the published times and counts.
#include "compiler/strategy/schedule.h"

#include "core/base/error.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

namespace sextant::schedule_test {
namespace {

constexpr Schedule kSchedules[] = {Schedule::kGPipe, Schedule::kOneFOneB, Schedule::kInterleaved,
                                   Schedule::kZeroBubbleH1, Schedule::kZeroBubbleV};

// Every shape up to these sizes that the schedule has.
std::vector<PipelineShape> shapes_of(Schedule schedule, std::int32_t most_stages,
                                     std::int32_t most_micro_batches) {
  std::vector<PipelineShape> shapes;
  const std::int32_t chunks = schedule == Schedule::kZeroBubbleV ? 2 : 1;
  for (std::int32_t p = 1; p <= most_stages; ++p)
    for (std::int32_t m = 1; m <= most_micro_batches; ++m) {
      if (schedule != Schedule::kInterleaved) shapes.push_back({p, m, chunks});
      for (std::int32_t v = 2; schedule == Schedule::kInterleaved && m % p == 0 && v <= 4; ++v)
        shapes.push_back({p, m, v});
    }
  return shapes;
}

struct Costs {
  std::int64_t forward = 1, backward = 1, weight_grad = 1;  // of one chunk
};

// End of the last cell without transfer times: each cell starts when the stage is free and what it
// needs is there. The slow, obvious way, by trying all stages again and again.
std::int64_t makespan(Schedule schedule, const PipelineShape& shape, Costs costs) {
  using Key = std::tuple<CellKind, int, std::int32_t>;  // kind, virtual stage, micro-batch
  std::map<Key, std::int64_t> end;
  std::vector<std::vector<Cell>> cells;
  std::vector<std::size_t> next(static_cast<std::size_t>(shape.stages), 0);
  std::vector<std::int64_t> free(static_cast<std::size_t>(shape.stages), 0);
  for (std::int32_t s = 0; s < shape.stages; ++s) cells.push_back(stage_cells(schedule, shape, s));
  const auto needs = [&](const Cell& cell, int place) -> std::optional<Key> {
    if (cell.kind == CellKind::kWeightGrad)
      return Key{CellKind::kBackward, place, cell.micro_batch};
    if (cell.kind == CellKind::kBackward)
      return place + 1 < shape.stages * shape.chunks
                 ? Key{CellKind::kBackward, place + 1, cell.micro_batch}
                 : Key{CellKind::kForward, place, cell.micro_batch};
    if (place == 0) return std::nullopt;
    return Key{CellKind::kForward, place - 1, cell.micro_batch};
  };
  for (bool moved = true; moved;) {
    moved = false;
    for (std::int32_t s = 0; s < shape.stages; ++s) {
      const auto stage = static_cast<std::size_t>(s);
      while (next[stage] < cells[stage].size()) {
        const Cell cell = cells[stage][next[stage]];
        const int place = virtual_stage(schedule, shape.stages, s, cell.chunk);
        const std::optional<Key> need = needs(cell, place);
        if (need && !end.contains(*need)) break;
        const std::int64_t cost = cell.kind == CellKind::kForward    ? costs.forward
                                  : cell.kind == CellKind::kBackward ? costs.backward
                                                                     : costs.weight_grad;
        free[stage] = std::max(free[stage], need ? end[*need] : 0) + cost;
        end[{cell.kind, place, cell.micro_batch}] = free[stage];
        ++next[stage];
        moved = true;
      }
    }
  }
  for (std::size_t stage = 0; stage < cells.size(); ++stage)
    REQUIRE(next[stage] == cells[stage].size());
  return *std::max_element(free.begin(), free.end());
}

// Chunk activations between their F and the cell that uses them last.
std::int32_t most_alive(Schedule schedule, const PipelineShape& shape, std::int32_t stage) {
  const CellKind last = splits_backward(schedule) ? CellKind::kWeightGrad : CellKind::kBackward;
  std::int32_t alive = 0, most = 0;
  for (const Cell& cell : stage_cells(schedule, shape, stage)) {
    alive += cell.kind == CellKind::kForward ? 1 : 0;
    most = std::max(most, alive);
    alive -= cell.kind == last ? 1 : 0;
  }
  return most;
}

TEST_CASE("every schedule runs every cell of every micro-batch and chunk once and in order") {
  for (const Schedule schedule : kSchedules)
    for (const PipelineShape& shape : shapes_of(schedule, 5, 10))
      for (std::int32_t stage = 0; stage < shape.stages; ++stage) {
        std::map<std::tuple<CellKind, std::int32_t>, std::int32_t> count;
        for (const Cell& cell : stage_cells(schedule, shape, stage))
          CHECK(cell.micro_batch == count[{cell.kind, cell.chunk}]++);
        for (std::int32_t chunk = 0; chunk < shape.chunks; ++chunk) {
          CHECK(count[{CellKind::kForward, chunk}] == shape.micro_batches);
          CHECK(count[{CellKind::kBackward, chunk}] == shape.micro_batches);
          CHECK(count[{CellKind::kWeightGrad, chunk}] ==
                (splits_backward(schedule) ? shape.micro_batches : 0));
        }
        CHECK(count.size() == static_cast<std::size_t>(shape.chunks) * 3);
      }
}

TEST_CASE("chunks go round the stages, those of zb-v down and up, and every place is taken once") {
  CHECK(virtual_stage(Schedule::kInterleaved, 4, 1, 2) == 9);
  CHECK(virtual_stage(Schedule::kZeroBubbleV, 4, 1, 0) == 1);
  CHECK(virtual_stage(Schedule::kZeroBubbleV, 4, 1, 1) == 6);
  CHECK(virtual_stage(Schedule::kZeroBubbleV, 4, 0, 1) == 7);
  for (const Schedule schedule : {Schedule::kInterleaved, Schedule::kZeroBubbleV})
    for (int number = 0; number < 12; ++number) {
      const StageChunk place = stage_of_virtual(schedule, 6, number);
      CHECK(virtual_stage(schedule, 6, place.stage, place.chunk) == number);
    }
}

TEST_CASE("GPipe and 1F1B take (m + p - 1) times the time of a micro-batch") {
  for (const Schedule schedule : {Schedule::kGPipe, Schedule::kOneFOneB})
    for (const PipelineShape& shape : shapes_of(schedule, 6, 12))
      CHECK(makespan(schedule, shape, {1, 2, 0}) == 3 * (shape.micro_batches + shape.stages - 1));
}

TEST_CASE("interleaved takes (v m + p - 1) times the time of a chunk: its bubble is v times less") {
  for (const PipelineShape& shape : shapes_of(Schedule::kInterleaved, 6, 12)) {
    const std::int64_t cells = shape.chunks * shape.micro_batches + shape.stages - 1;
    CHECK(makespan(Schedule::kInterleaved, shape, {1, 2, 0}) == 3 * cells);
    CHECK(makespan(Schedule::kInterleaved, shape, {2, 3, 0}) == 5 * cells);
  }
}

TEST_CASE("ZB-H1 with F = B = W takes 3 m + p - 1 from as many micro-batches as stages on") {
  for (const PipelineShape& shape : shapes_of(Schedule::kZeroBubbleH1, 8, 20))
    if (shape.micro_batches >= shape.stages)
      CHECK(makespan(Schedule::kZeroBubbleH1, shape, {1, 1, 1}) ==
            3 * shape.micro_batches + shape.stages - 1);
}

// 6m is the work of a stage, p - 1 the last stage's wait for its first input: no schedule is
// shorter, and no stage waits once it has begun.
TEST_CASE("ZB-V with F = B = W takes max(6m + p - 1, 4m + 4p - 2) chunk units") {
  for (const PipelineShape& shape : shapes_of(Schedule::kZeroBubbleV, 8, 26)) {
    const std::int64_t m = shape.micro_batches, p = shape.stages;
    CHECK(makespan(Schedule::kZeroBubbleV, shape, {1, 1, 1}) ==
          std::max(6 * m + p - 1, 4 * m + 4 * p - 2));
  }
}

TEST_CASE("1F1B keeps min(m, p - stage) micro-batches alive, GPipe m, ZB-H1 at most p") {
  for (const PipelineShape& shape : shapes_of(Schedule::kOneFOneB, 6, 12))
    for (std::int32_t stage = 0; stage < shape.stages; ++stage) {
      const std::int32_t m = shape.micro_batches, p = shape.stages;
      CHECK(most_alive(Schedule::kOneFOneB, shape, stage) == std::min(m, p - stage));
      CHECK(most_alive(Schedule::kGPipe, shape, stage) == m);
      CHECK(most_alive(Schedule::kZeroBubbleH1, shape, stage) <= std::min(m, p));
    }
}

TEST_CASE("interleaved keeps one chunk activation more alive than it warms up with") {
  for (const PipelineShape& shape : shapes_of(Schedule::kInterleaved, 6, 12))
    for (std::int32_t stage = 0; stage < shape.stages; ++stage) {
      const std::int32_t all = shape.micro_batches * shape.chunks;
      const std::int32_t warm_up =
          2 * (shape.stages - stage - 1) + (shape.chunks - 1) * shape.stages;
      CHECK(most_alive(Schedule::kInterleaved, shape, stage) == std::min(all, warm_up + 1));
    }
  // Design: 14 + 40 + 1.
  CHECK(most_alive(Schedule::kInterleaved, {8, 96, 6}, 0) == 55);
}

TEST_CASE("ZB-V keeps at most 2p chunk activations alive on every stage, as 1F1B on its first") {
  for (const PipelineShape& shape : shapes_of(Schedule::kZeroBubbleV, 8, 20))
    for (std::int32_t stage = 0; stage < shape.stages; ++stage) {
      const std::int32_t alive = most_alive(Schedule::kZeroBubbleV, shape, stage);
      CHECK(alive <= 2 * std::min(shape.stages, shape.micro_batches));
      // Enough micro-batches for the first stage to run forward until the first gradient comes.
      if (shape.micro_batches >= 2 * shape.stages - 1) CHECK(alive == 2 * shape.stages);
    }
}

TEST_CASE("G42: 1F1B of four stages with two micro-batches ends after 10, with one after 8") {
  CHECK(makespan(Schedule::kOneFOneB, {4, 2, 1}, {1, 1, 0}) == 10);
  CHECK(makespan(Schedule::kOneFOneB, {4, 1, 1}, {1, 1, 0}) == 8);
}

TEST_CASE("shapes that a schedule does not have are refused with those that would do") {
  const auto refusal = [](Schedule schedule, const PipelineShape& shape) -> std::string {
    try {
      require_schedule(schedule, shape);
    } catch (const Error& error) {
      CHECK(error.code() == ErrorCode::kInfeasible);
      return error.what();
    }
    return "accepted";
  };
  const auto says = [](const std::string& text, const char* part) {
    return text.find(part) != std::string::npos;
  };
  CHECK(says(refusal(Schedule::kInterleaved, {4, 6, 2}), "a step has 6"));
  CHECK(says(refusal(Schedule::kInterleaved, {4, 6, 2}), "would do: 4 or 8"));
  CHECK(says(refusal(Schedule::kInterleaved, {4, 3, 2}), "would do: 4"));
  CHECK(says(refusal(Schedule::kInterleaved, {4, 8, 1}), "schedule=1f1b"));
  CHECK(says(refusal(Schedule::kZeroBubbleV, {4, 8, 3}), "virtual=2"));
  for (const Schedule schedule : {Schedule::kGPipe, Schedule::kOneFOneB, Schedule::kZeroBubbleH1}) {
    CHECK(says(refusal(schedule, {4, 8, 2}), "schedule=interleaved or zb-v"));
    CHECK(refusal(schedule, {4, 7, 1}) == "accepted");
  }
  CHECK(refusal(Schedule::kInterleaved, {4, 8, 3}) == "accepted");
  CHECK(refusal(Schedule::kZeroBubbleV, {4, 3, 2}) == "accepted");
}

}  // namespace
}  // namespace sextant::schedule_test
