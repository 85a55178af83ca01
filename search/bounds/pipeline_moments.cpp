// Walks through the cells of each stage once.
#include "search/bounds/pipeline_moments.h"

#include "core/base/at.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace sextant {
namespace {

// From this many rounds of the pipeline on, more micro-batches repeat what was there before: what
// is in flight then only falls. GPipe keeps all of them.
constexpr std::int32_t kRounds = 4;

std::int32_t enough(Schedule schedule, const PipelineShape& shape) {
  if (schedule == Schedule::kGPipe) return shape.micro_batches;
  return std::min(shape.micro_batches, kRounds * shape.stages);
}

std::int32_t total(const std::vector<std::int32_t>& counts) {
  return std::accumulate(counts.begin(), counts.end(), 0);
}

std::vector<StageMoment> gpipe_moments(std::int32_t micro_batches) {
  std::vector<StageMoment> moments = {{{micro_batches}, {false}}};
  if (micro_batches > 1) moments.push_back({{micro_batches - 1}, {true}});
  return moments;
}

std::vector<StageMoment> moments_of(Schedule schedule, const PipelineShape& shape,
                                    std::int32_t stage) {
  if (schedule == Schedule::kGPipe) return gpipe_moments(shape.micro_batches);
  StageMoment now{std::vector<std::int32_t>(at(shape.chunks)), std::vector<bool>(at(shape.chunks))};
  // By chunks with gradients.
  std::vector<StageMoment> most(at(shape.chunks) + 1), most_with_awaiting = most;
  const bool splits = splits_backward(schedule);
  const CellKind completes = splits ? CellKind::kWeightGrad : CellKind::kBackward;
  for (const Cell& cell : stage_cells(schedule, shape, stage)) {
    if (cell.kind == CellKind::kForward) ++now.in_flight[at(cell.chunk)];
    if (cell.kind == CellKind::kBackward) --now.in_flight[at(cell.chunk)];
    if (cell.kind == CellKind::kBackward && splits) ++now.awaiting[at(cell.chunk)];
    if (cell.kind == CellKind::kWeightGrad) --now.awaiting[at(cell.chunk)];
    // A gradient of one micro-batch alone may be used up before the next one is made.
    if (cell.kind == completes && shape.micro_batches > 1) now.has_gradients[at(cell.chunk)] = true;
    const auto with = std::count(now.has_gradients.begin(), now.has_gradients.end(), true);
    StageMoment& best = most[at(with)];
    if (best.in_flight.empty() || total(now.in_flight) > total(best.in_flight)) best = now;
    StageMoment& fullest = most_with_awaiting[at(with)];
    const auto rank = [](const StageMoment& moment) {
      return std::pair(total(moment.awaiting), total(moment.in_flight));
    };
    if (splits && (fullest.in_flight.empty() || rank(now) > rank(fullest))) fullest = now;
  }
  most.insert(most.end(), most_with_awaiting.begin(), most_with_awaiting.end());
  std::erase_if(most, [](const StageMoment& moment) { return moment.in_flight.empty(); });
  return most;
}

}  // namespace

PipelineMoments pipeline_moments(Schedule schedule, const PipelineShape& shape) {
  PipelineShape shortened = shape;
  shortened.micro_batches = enough(schedule, shape);
  PipelineMoments moments;
  for (std::int32_t stage = 0; stage < shape.stages; ++stage)
    moments.push_back(moments_of(schedule, shortened, stage));
  return moments;
}

const PipelineMoments& PipelineMomentsTable::of(Schedule schedule, const PipelineShape& shape) {
  const auto key = std::tuple(schedule, shape.stages, enough(schedule, shape), shape.chunks);
  const auto [place, is_new] = known_.try_emplace(key);
  if (is_new) place->second = pipeline_moments(schedule, shape);
  return place->second;
}

}  // namespace sextant
