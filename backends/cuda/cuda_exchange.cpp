// Local steps of scripts as moves and fills.
#include "backends/cuda/cuda_exchange.h"

#include "backends/cuda/cuda_check.h"
#include "core/base/check.h"

#include <algorithm>
#include <utility>

namespace sextant {
namespace {

void add_script_step(Movement& movement, const LocalStep& step, DType dtype,
                     const ScriptBuffers& buffers) {
  if (step.kind == LocalStep::Kind::kFill) {
    require(step.dims.empty() || (step.dims.size() == 1 && step.dims[0].to == 1),
            ErrorCode::kInternal, "a script fills a box with gaps");
    movement.add(CudaFill{buffers.at(step.to), (size_of(dtype) * step.elements()).value,
                          neutral_pattern(step.op, dtype)});
    return;
  }
  std::vector<MoveDim> dims;
  for (const ScriptDim& dim : step.dims) dims.push_back({dim.extent, dim.from, dim.to});
  if (dims.empty()) dims.push_back({1, 1, 1});
  const bool reduces = step.kind == LocalStep::Kind::kReduce;
  CudaMove move =
      make_move(dtype, buffers.at(step.from), buffers.at(step.to), std::move(dims), reduces);
  move.op = step.op;
  movement.add(move);
}

}  // namespace

std::byte* ScriptBuffers::at(const ScriptPlace& place) const {
  std::byte* begin = nullptr;
  switch (place.buffer) {
    case ScriptPlace::Buffer::kIn:
      begin = in;
      break;
    case ScriptPlace::Buffer::kOut:
      begin = out;
      break;
    case ScriptPlace::Buffer::kStaging:
      begin = staging;
      break;
  }
  require(begin != nullptr, ErrorCode::kInternal, "a script uses a buffer that its member lacks");
  return begin + place.offset.value;
}

CudaCommunication::CudaCommunication(const PhysicalGraph& graph, Rank own_rank, GroupId own_group,
                                     const Communication& communication, bool accumulate)
    : rank(own_rank), group(own_group), communication_(communication) {
  const std::vector<Rank>& ranks = graph.groups[own_group].ranks;
  const auto found = std::find(ranks.begin(), ranks.end(), own_rank);
  require(found != ranks.end(), ErrorCode::kInternal, "rank {} is no member of group '{}'",
          own_rank.value, graph.groups[own_group].name);
  member_ = static_cast<std::size_t>(found - ranks.begin());
  num_members_ = ranks.size();
  script_ = make_script(graph, communication, ranks, member_, accumulate);
}

CudaCommunication::~CudaCommunication() {
  if (ready_ != nullptr) cudaEventDestroy(ready_);
  if (pulled_ != nullptr) cudaEventDestroy(pulled_);
}

void CudaCommunication::place(const ScriptBuffers& buffers, std::byte* aside) {
  buffers_ = buffers;
  aside_ = aside;
  for (const LocalStep& step : script_.before)
    add_script_step(before_, step, script_.dtype, buffers_);
  for (const LocalStep& step : script_.after)
    add_script_step(after_, step, script_.dtype, buffers_);
  SEXTANT_CUDA(cudaEventCreateWithFlags(&ready_, cudaEventDisableTiming));
  SEXTANT_CUDA(cudaEventCreateWithFlags(&pulled_, cudaEventDisableTiming));
}

}  // namespace sextant
