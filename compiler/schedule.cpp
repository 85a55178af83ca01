// GPipe, 1F1B and ZB-H1 as orders of cells.
#include "compiler/schedule.h"

#include "core/check.h"

#include <algorithm>

namespace sextant {
namespace {

class CellList {
 public:
  void forward() { cells_.push_back({CellKind::kForward, forwards_++}); }
  void backward() { cells_.push_back({CellKind::kBackward, backwards_++}); }
  void weight_grad() { cells_.push_back({CellKind::kWeightGrad, weight_grads_++}); }
  std::int32_t backwards() const { return backwards_; }
  std::int32_t weight_grads() const { return weight_grads_; }
  std::vector<Cell> take() { return std::move(cells_); }

 private:
  std::vector<Cell> cells_;
  std::int32_t forwards_ = 0, backwards_ = 0, weight_grads_ = 0;
};

// All forward, then all backward. Backward keeps the order of forward: acts come 0, 1, 2, ...
std::vector<Cell> gpipe(std::int32_t micro_batches) {
  CellList cells;
  for (std::int32_t i = 0; i < micro_batches; ++i) cells.forward();
  for (std::int32_t i = 0; i < micro_batches; ++i) cells.backward();
  return cells.take();
}

// Forward cells before the first backward one: what the later stages need to get going. Fewer
// micro-batches than stages warm up with what there is (G42).
std::int32_t warm_up(std::int32_t num_stages, std::int32_t stage, std::int32_t micro_batches) {
  return std::min(micro_batches, num_stages - 1 - stage);
}

// Narayanan et al. 2019, PipeDream-Flush: alive on a stage are min(m, p - stage) micro-batches.
std::vector<Cell> one_f_one_b(std::int32_t num_stages, std::int32_t stage,
                              std::int32_t micro_batches) {
  const std::int32_t ahead = warm_up(num_stages, stage, micro_batches);
  CellList cells;
  for (std::int32_t i = 0; i < ahead; ++i) cells.forward();
  for (std::int32_t i = ahead; i < micro_batches; ++i) {
    cells.forward();
    cells.backward();
  }
  for (std::int32_t i = 0; i < ahead; ++i) cells.backward();
  return cells.take();
}

// Qi et al. 2023, ZB-H1: 1F1B in which stage s lets its W lag s micro-batches behind B, so that B,
// which the earlier stages wait for, comes sooner, and W fills the time after the last B. At most
// p micro-batches are between their F and their W, as on the first stage of 1F1B.
std::vector<Cell> zero_bubble_h1(std::int32_t num_stages, std::int32_t stage,
                                 std::int32_t micro_batches) {
  const std::int32_t ahead = warm_up(num_stages, stage, micro_batches);
  const std::int32_t lag = stage;
  CellList cells;
  const auto backward = [&] {
    cells.backward();
    if (cells.backwards() > lag) cells.weight_grad();
  };
  for (std::int32_t i = 0; i < ahead; ++i) cells.forward();
  for (std::int32_t i = ahead; i < micro_batches; ++i) {
    cells.forward();
    backward();
  }
  for (std::int32_t i = 0; i < ahead; ++i) backward();
  while (cells.weight_grads() < micro_batches) cells.weight_grad();
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

std::vector<Cell> stage_cells(Schedule schedule, std::int32_t num_stages, std::int32_t stage,
                              std::int32_t micro_batches) {
  require(stage >= 0 && stage < num_stages && micro_batches >= 1, ErrorCode::kUsage,
          "no cells for stage {} of {} with {} micro-batches", stage, num_stages, micro_batches);
  switch (schedule) {
    case Schedule::kGPipe:
      return gpipe(micro_batches);
    case Schedule::kOneFOneB:
      return one_f_one_b(num_stages, stage, micro_batches);
    case Schedule::kZeroBubbleH1:
      return zero_bubble_h1(num_stages, stage, micro_batches);
    case Schedule::kInterleaved:
    case Schedule::kZeroBubbleV:
      break;
  }
  fail(ErrorCode::kInternal, "no cells for schedule {}", to_string(schedule));
}

}  // namespace sextant
