// GPipe, 1F1B, interleaved 1F1B, ZB-H1 and ZB-V as orders of cells.
#include "compiler/strategy/schedule.h"

#include "core/base/check.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace sextant {
namespace {

// Cells of a stage whose micro-batches of a kind and chunk come in order.
class CellList {
 public:
  explicit CellList(const PipelineShape& shape)
      : micro_batches_(shape.micro_batches), chunks_(static_cast<std::size_t>(shape.chunks)) {}

  void forward(std::int32_t chunk = 0) { add(CellKind::kForward, chunk); }
  void backward(std::int32_t chunk = 0) { add(CellKind::kBackward, chunk); }
  void weight_grad(std::int32_t chunk = 0) { add(CellKind::kWeightGrad, chunk); }
  std::int32_t count(CellKind kind, std::int32_t chunk = 0) const {
    return chunks_[static_cast<std::size_t>(chunk)][static_cast<std::size_t>(kind)];
  }
  std::vector<Cell> take() { return std::move(cells_); }

 private:
  // Micro-batches beyond the last one are counted and left out.
  void add(CellKind kind, std::int32_t chunk) {
    std::int32_t& next = chunks_[static_cast<std::size_t>(chunk)][static_cast<std::size_t>(kind)];
    if (next < micro_batches_) cells_.push_back({kind, next, chunk});
    ++next;
  }

  std::int32_t micro_batches_;
  std::vector<std::array<std::int32_t, kNumCellKinds>> chunks_;
  std::vector<Cell> cells_;
};

// All forward, then all backward. Backward keeps the order of forward: acts come 0, 1, 2, ...
std::vector<Cell> gpipe(const PipelineShape& shape) {
  CellList cells(shape);
  for (std::int32_t i = 0; i < shape.micro_batches; ++i) cells.forward();
  for (std::int32_t i = 0; i < shape.micro_batches; ++i) cells.backward();
  return cells.take();
}

// Forward cells before the first backward one: what the later stages need to get going. Fewer
// micro-batches than stages warm up with what there is.
std::int32_t warm_up(const PipelineShape& shape, std::int32_t stage) {
  return std::min(shape.micro_batches, shape.stages - 1 - stage);
}

// Narayanan et al. 2019, PipeDream-Flush: alive on a stage are min(m, p - stage) micro-batches.
std::vector<Cell> one_f_one_b(const PipelineShape& shape, std::int32_t stage) {
  const std::int32_t ahead = warm_up(shape, stage);
  CellList cells(shape);
  for (std::int32_t i = 0; i < ahead; ++i) cells.forward();
  for (std::int32_t i = ahead; i < shape.micro_batches; ++i) {
    cells.forward();
    cells.backward();
  }
  for (std::int32_t i = 0; i < ahead; ++i) cells.backward();
  return cells.take();
}

// Narayanan et al. 2021, interleaved 1F1B. Forward takes p micro-batches through chunk 0, then the
// same ones through chunk 1, and so on, then the next p; backward likewise from the last chunk.
// A stage starts with min(m v, 2 (p - stage - 1) + (v - 1) p) forward cells, so it holds one chunk
// activation more than that at most.
std::vector<Cell> interleaved(const PipelineShape& shape, std::int32_t stage) {
  const std::int32_t p = shape.stages, v = shape.chunks;
  const std::int32_t all = shape.micro_batches * v;
  const std::int32_t ahead = std::min(all, 2 * (p - stage - 1) + (v - 1) * p);
  const auto chunk_of = [&](std::int32_t turn) { return turn / p % v; };
  CellList cells(shape);
  for (std::int32_t i = 0; i < ahead; ++i) cells.forward(chunk_of(i));
  for (std::int32_t i = 0; i < all; ++i) {
    if (ahead + i < all) cells.forward(chunk_of(ahead + i));
    cells.backward(v - 1 - chunk_of(i));
  }
  return cells.take();
}

// Qi et al. 2023, ZB-H1: 1F1B in which stage s lets its W lag s micro-batches behind B, so that B,
// which the earlier stages wait for, comes sooner, and W fills the time after the last B. At most
// p micro-batches are between their F and their W, as on the first stage of 1F1B.
std::vector<Cell> zero_bubble_h1(const PipelineShape& shape, std::int32_t stage) {
  const std::int32_t ahead = warm_up(shape, stage);
  const std::int32_t lag = stage;
  CellList cells(shape);
  const auto backward = [&] {
    cells.backward();
    if (cells.count(CellKind::kBackward) > lag) cells.weight_grad();
  };
  for (std::int32_t i = 0; i < ahead; ++i) cells.forward();
  for (std::int32_t i = ahead; i < shape.micro_batches; ++i) {
    cells.forward();
    backward();
  }
  for (std::int32_t i = 0; i < ahead; ++i) backward();
  while (cells.count(CellKind::kWeightGrad) < shape.micro_batches) cells.weight_grad();
  return cells.take();
}

// Qi et al. 2023 and 2024, ZB-V: chunk 0 goes down the stages, chunk 1 back up, so the first stage
// has the loss and starts backward itself. In units of F = B = W of one chunk, stage r gets its
// first input of chunk 0 at r, of chunk 1 at 2p - 1 - r, and its first gradient at 2p + r: until
// then it runs F without a gap, 2p of them, which is the most it ever holds (as many activations as
// 1F1B on its first stage, p of two chunks). From there on
//   p - r times  F1 B1 W1            while no gradient of chunk 0 has come back,
//   then         F0 B0 W0 F1 B1 W1   the steady state of six units without a gap,
//   r times      B0 B1               when there is nothing left to go forward; W waits,
//   p - r times  B0 W0,              and the remaining W.
// The makespan is max(6m + p - 1, 4m + 4p - 2): from about 3p/2 micro-batches on, no stage waits
// between its first cell and its last. With fewer, cells of those that are not there are left out.
std::vector<Cell> zero_bubble_v(const PipelineShape& shape, std::int32_t stage) {
  const std::int32_t p = shape.stages;
  const std::int32_t m = std::max(shape.micro_batches, 2 * p - 1);  // what fills the pipeline
  CellList cells(shape);
  const auto forwards = [&](std::int32_t chunk) { return cells.count(CellKind::kForward, chunk); };
  const auto backward_whole = [&](std::int32_t chunk) {
    cells.backward(chunk);
    cells.weight_grad(chunk);
  };
  for (std::int32_t i = 0; i < 2 * (p - stage) - 1; ++i) cells.forward(0);
  for (std::int32_t i = 0; i < stage; ++i) {
    cells.forward(1);
    cells.forward(0);
  }
  for (std::int32_t i = 0; i < p - stage; ++i) {
    cells.forward(1);
    backward_whole(1);
  }
  while (forwards(1) < m) {
    if (forwards(0) < m) cells.forward(0);
    backward_whole(0);
    cells.forward(1);
    backward_whole(1);
  }
  for (std::int32_t i = 0; i < stage; ++i) {
    cells.backward(0);
    cells.backward(1);
  }
  for (std::int32_t i = 0; i < p - stage; ++i) backward_whole(0);
  for (const std::int32_t chunk : {1, 0})
    while (cells.count(CellKind::kWeightGrad, chunk) < m) cells.weight_grad(chunk);
  return cells.take();
}

}  // namespace

bool splits_backward(Schedule schedule) {
  switch (schedule) {
    case Schedule::kGPipe:
    case Schedule::kOneFOneB:
    case Schedule::kInterleaved:
      return false;
    case Schedule::kZeroBubbleH1:
    case Schedule::kZeroBubbleV:
      return true;
  }
  return false;
}

int virtual_stage(Schedule schedule, int stages, int stage, int chunk) {
  const bool back = schedule == Schedule::kZeroBubbleV && chunk % 2 == 1;
  return chunk * stages + (back ? stages - 1 - stage : stage);
}

StageChunk stage_of_virtual(Schedule schedule, int stages, int virtual_stage) {
  const int chunk = virtual_stage / stages, place = virtual_stage % stages;
  const bool back = schedule == Schedule::kZeroBubbleV && chunk % 2 == 1;
  return {back ? stages - 1 - place : place, chunk};
}

void require_schedule(Schedule schedule, const PipelineShape& shape) {
  const auto wanted = [&](bool holds, std::string_view what) {
    require(holds, ErrorCode::kInfeasible, "schedule={} with virtual={}: {}", to_string(schedule),
            shape.chunks, what);
  };
  switch (schedule) {
    case Schedule::kGPipe:
    case Schedule::kOneFOneB:
    case Schedule::kZeroBubbleH1:
      wanted(shape.chunks == 1, "several chunks per stage want schedule=interleaved or zb-v");
      return;
    case Schedule::kZeroBubbleV:
      wanted(shape.chunks == 2, "zb-v has two chunks per stage, virtual=2");
      return;
    case Schedule::kInterleaved: {
      wanted(shape.chunks >= 2, "wanted virtual=2 or more; over one chunk it is schedule=1f1b");
      const std::int32_t below = shape.micro_batches / shape.stages * shape.stages;
      require(shape.micro_batches % shape.stages == 0, ErrorCode::kInfeasible,
              "schedule=interleaved takes pp={} micro-batches at a time, and a step has {}; "
              "micro-batches per step that would do: {}{}",
              shape.stages, shape.micro_batches, below > 0 ? fmt::format("{} or ", below) : "",
              below + shape.stages);
      return;
    }
  }
}

std::vector<Cell> stage_cells(Schedule schedule, const PipelineShape& shape, std::int32_t stage) {
  require(stage >= 0 && stage < shape.stages && shape.micro_batches >= 1, ErrorCode::kUsage,
          "no cells for stage {} of {} with {} micro-batches", stage, shape.stages,
          shape.micro_batches);
  require_schedule(schedule, shape);
  switch (schedule) {
    case Schedule::kGPipe:
      return gpipe(shape);
    case Schedule::kOneFOneB:
      return one_f_one_b(shape, stage);
    case Schedule::kInterleaved:
      return interleaved(shape, stage);
    case Schedule::kZeroBubbleH1:
      return zero_bubble_h1(shape, stage);
    case Schedule::kZeroBubbleV:
      return zero_bubble_v(shape, stage);
  }
  fail(ErrorCode::kInternal, "no cells for schedule {}", to_string(schedule));
}

}  // namespace sextant
