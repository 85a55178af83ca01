// The cells of a pipeline problem as numbers, by virtual stage, kind and micro-batch, and what must
// come before what; not an order of them. Times are in the unit of the problem.
#pragma once

#include "core/base/at.h"
#include "search/bounds/schedule_optimum.h"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

namespace sextant {

class CellGraph {
 public:
  explicit CellGraph(const PipelineProblem& problem);

  const PipelineProblem& problem() const { return problem_; }
  std::int32_t num_virtual() const { return problem_.shape.stages * problem_.shape.chunks; }
  std::int32_t num_kinds() const { return problem_.has_weight_grad() ? 3 : 2; }
  std::int32_t micro_batches() const { return problem_.shape.micro_batches; }
  std::int32_t num_cells() const { return num_virtual() * num_kinds() * micro_batches(); }
  std::int32_t stage_of(std::int32_t v) const { return at(places_, v).stage; }
  std::int32_t chunk_of(std::int32_t v) const { return at(places_, v).chunk; }

  std::int32_t cell(std::int32_t v, CellKind kind, std::int32_t micro_batch) const {
    return (v * num_kinds() + static_cast<std::int32_t>(kind)) * micro_batches() + micro_batch;
  }
  std::int32_t virtual_of(std::int32_t cell) const { return cell / micro_batches() / num_kinds(); }
  CellKind kind_of(std::int32_t cell) const {
    return static_cast<CellKind>(cell / micro_batches() % num_kinds());
  }
  std::int32_t micro_batch_of(std::int32_t cell) const { return cell % micro_batches(); }
  std::int64_t duration(CellKind kind) const {
    return kind == CellKind::kForward    ? problem_.forward
           : kind == CellKind::kBackward ? problem_.backward
                                         : problem_.weight_grad;
  }
  CellKind freeing_kind() const {
    return problem_.has_weight_grad() ? CellKind::kWeightGrad : CellKind::kBackward;
  }

  // The cell whose result this one reads, and how long that takes to get here; -1: none.
  std::pair<std::int32_t, std::int64_t> source(std::int32_t cell) const;
  // The cell that frees the place an F takes, where that is known beforehand; else -1.
  std::int32_t room_for(std::int32_t cell) const;

  // Every cell after all that must come before it.
  template <typename Visit>
  void for_each_in_order(const Visit& visit) const {
    for (std::int32_t i = 0; i < micro_batches(); ++i) {
      for (std::int32_t v = 0; v < num_virtual(); ++v) visit(cell(v, CellKind::kForward, i));
      for (std::int32_t v = num_virtual(); v-- > 0;) {
        visit(cell(v, CellKind::kBackward, i));
        if (problem_.has_weight_grad()) visit(cell(v, CellKind::kWeightGrad, i));
      }
    }
  }

  // The longest way from the end of a cell to the end of all.
  std::int64_t tail(std::int32_t cell) const { return at(tails_, cell); }

 private:
  std::int64_t way(std::int32_t from, std::int32_t to) const {
    return stage_of(from) == stage_of(to) ? 0 : problem_.transfer;
  }

  void find_tails();

  PipelineProblem problem_;
  std::vector<StageChunk> places_;
  std::int32_t frees_before_forward_ = std::numeric_limits<std::int32_t>::max();
  std::vector<std::int64_t> tails_;
};

}  // namespace sextant
