// Precedences of cells and the longest ways behind them.
#include "search/bounds/cell_graph.h"

#include "compiler/strategy/schedule.h"
#include "core/base/at.h"

#include <algorithm>

namespace sextant {
namespace {}  // namespace

CellGraph::CellGraph(const PipelineProblem& problem) : problem_(problem) {
  const std::int32_t chunks = problem.shape.chunks;
  for (std::int32_t v = 0; v < num_virtual(); ++v)
    places_.push_back(
        stage_of_virtual(problem.v_shape ? Schedule::kZeroBubbleV : Schedule::kInterleaved,
                         problem.shape.stages, v));
  // With one chunk, F waits for the cell that frees the place it takes: a plain precedence.
  if (chunks == 1) frees_before_forward_ = problem.memory;
  find_tails();
}

std::pair<std::int32_t, std::int64_t> CellGraph::source(std::int32_t cell) const {
  const std::int32_t v = virtual_of(cell), i = micro_batch_of(cell);
  switch (kind_of(cell)) {
    case CellKind::kForward:
      if (v == 0) return {-1, 0};
      return {this->cell(v - 1, CellKind::kForward, i), way(v - 1, v)};
    case CellKind::kBackward:
      if (v + 1 == num_virtual()) return {this->cell(v, CellKind::kForward, i), 0};
      return {this->cell(v + 1, CellKind::kBackward, i), way(v + 1, v)};
    case CellKind::kWeightGrad:
      return {this->cell(v, CellKind::kBackward, i), 0};
  }
  return {-1, 0};
}

std::int32_t CellGraph::room_for(std::int32_t cell) const {
  const std::int32_t i = micro_batch_of(cell);
  if (kind_of(cell) != CellKind::kForward || i < frees_before_forward_) return -1;
  return this->cell(virtual_of(cell), freeing_kind(), i - frees_before_forward_);
}

void CellGraph::find_tails() {
  tails_.assign(at(num_cells()), 0);
  std::vector<std::int32_t> order;
  for_each_in_order([&](std::int32_t cell) { order.push_back(cell); });
  for (auto own = order.rbegin(); own != order.rend(); ++own) {
    const std::int64_t after = tails_[at(*own)] + duration(kind_of(*own));
    const auto lead = [&](std::int32_t before, std::int64_t way) {
      if (before >= 0) tails_[at(before)] = std::max(tails_[at(before)], after + way);
    };
    const auto [from, way] = source(*own);
    lead(from, way);
    lead(room_for(*own), 0);
    if (micro_batch_of(*own) > 0) lead(*own - 1, 0);
  }
}

}  // namespace sextant
