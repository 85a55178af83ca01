// One walk through the cells of a stage finds where its edges are, one from each end counts them.
#include "search/bounds/pipeline_edges.h"

#include "core/base/at.h"

#include <algorithm>
#include <cstddef>

namespace sextant {
namespace {

constexpr std::int32_t kRoundsOfEdges = 4;

void count(const Cell& cell, CellCounts& counts) {
  switch (cell.kind) {
    case CellKind::kForward:
      ++at(counts.forward, cell.chunk);
      break;
    case CellKind::kBackward:
      ++at(counts.backward, cell.chunk);
      break;
    case CellKind::kWeightGrad:
      ++at(counts.weight_grad, cell.chunk);
      break;
  }
}

StageEdges edges_of(Schedule schedule, const PipelineShape& shape, std::int32_t stage) {
  const std::vector<Cell> cells = stage_cells(schedule, shape, stage);
  const CellKind completes =
      splits_backward(schedule) ? CellKind::kWeightGrad : CellKind::kBackward;
  const auto is_head = [](const Cell& cell) {
    return cell.kind == CellKind::kForward && cell.micro_batch == 0;
  };
  const auto is_tail = [&](const Cell& cell) {
    return cell.kind == completes && cell.micro_batch == shape.micro_batches - 1;
  };
  const std::vector<std::int32_t> none(at(shape.chunks), 0);
  const StageEdge empty{{none, none, none}, std::vector<bool>(at(shape.chunks), false)};
  StageEdges edges;
  StageEdge edge = empty;
  const auto first_tail = std::find_if(cells.begin(), cells.end(), is_tail);
  for (auto cell = cells.begin(); cell != first_tail; ++cell) {
    count(*cell, edge.cells);
    if (!is_head(*cell)) continue;
    edge.chunks[at(cell->chunk)] = true;
    edges.heads.push_back(edge);
  }
  edge = empty;
  for (auto cell = cells.rbegin(); cell != cells.rend(); ++cell) {
    count(*cell, edge.cells);
    if (!is_tail(*cell)) continue;
    edge.chunks[at(cell->chunk)] = true;
    edges.tails.push_back(edge);
  }
  return edges;
}

}  // namespace

std::vector<StageEdges> pipeline_edges(Schedule schedule, const PipelineShape& shape) {
  std::vector<StageEdges> edges;
  for (std::int32_t stage = 0; stage < shape.stages; ++stage)
    edges.push_back(edges_of(schedule, shape, stage));
  return edges;
}

const std::vector<StageEdges>& PipelineEdgesTable::of(Schedule schedule,
                                                      const PipelineShape& shape) {
  PipelineShape enough = shape;
  enough.micro_batches = std::min(shape.micro_batches, kRoundsOfEdges * shape.stages);
  const auto key = std::tuple(schedule, enough.stages, enough.micro_batches, enough.chunks);
  const auto [place, is_new] = known_.try_emplace(key);
  if (is_new) place->second = pipeline_edges(schedule, enough);
  return place->second;
}

}  // namespace sextant
