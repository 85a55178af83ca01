// Bytes that boxings move, and elements that the fullest device touches.
#include "core/tensors/mesh_boxes.h"
#include "sbp/inference_parts.h"

#include <algorithm>
#include <array>
#include <limits>

namespace sextant {
namespace {

constexpr std::int64_t kImpossible = std::numeric_limits<std::int64_t>::max();

// A split that becomes a partial value costs nothing now and a reduction later.
bool hides_a_split(const MeshState& from, const MeshState& to, std::size_t axes) {
  for (std::size_t axis = 0; axis < axes; ++axis)
    if (from.is_split(axis) && to.is_partial(axis)) return true;
  return false;
}

std::int64_t boxing_bytes(BoxedNumbers& boxed, TensorId id, const WordVersion& from,
                          const WordVersion& to) {
  if (from == to) return 0;
  return boxed.plans
      .plan(boxed.types[id.index()], boxed.meshes[from.mesh], from.state, boxed.meshes[to.mesh],
            to.state)
      .total_bytes.value;
}

std::int64_t bytes_before(const WordScene& scene, BoxedNumbers& boxed, OpId id, std::size_t mesh,
                          const WordCandidate& candidate) {
  const LogicalOp& op = scene.graph.op(id);
  std::int64_t total = 0;
  for (std::size_t i = 0; i < op.inputs.size(); ++i) {
    std::int64_t best = kImpossible;
    const bool is_given = scene.given.input({id, i}).has_value();
    for (const WordVersion& version : scene.versions[op.inputs[i].index()])
      if (is_given ||
          !hides_a_split(version.state, candidate.inputs[i], scene.extents[mesh].size()))
        best =
            std::min(best, boxing_bytes(boxed, op.inputs[i], version, {mesh, candidate.inputs[i]}));
    if (best == kImpossible) return kImpossible;
    total += best;
  }
  return total;
}

// What reducing over `axis` alone costs.
std::int64_t reduction_bytes(const WordScene& scene, TensorId id, const MeshState& state,
                             std::size_t axis, std::size_t mesh) {
  std::int64_t bytes = size_of(scene.tensor(id).type).value * 2 * (scene.extents[mesh][axis] - 1);
  for (std::size_t other = 0; other < scene.extents[mesh].size(); ++other)
    if (other != axis && !state.is_split(other)) bytes *= scene.extents[mesh][other];
  return bytes;
}

// An operator that passes a pending reduction on owes it, so that the reduction is not postponed
// for nothing, but is where several become one (the sum of partial gradients).
std::int64_t owed(const WordScene& scene, const LogicalOp& op, std::size_t mesh,
                  const WordCandidate& candidate) {
  if (waits_for_step(op)) return 0;
  std::int64_t total = 0;
  for (std::size_t axis = 0; axis < scene.extents[mesh].size(); ++axis) {
    std::int64_t before = 0, behind = 0;
    for (std::size_t i = 0; i < op.inputs.size(); ++i)
      if (candidate.inputs[i].is_partial(axis))
        before += reduction_bytes(scene, op.inputs[i], candidate.inputs[i], axis, mesh);
    for (std::size_t i = 0; i < op.outputs.size(); ++i)
      if (candidate.outputs[i].is_partial(axis))
        behind += reduction_bytes(scene, op.outputs[i], candidate.outputs[i], axis, mesh);
    total += std::min(before, behind);
  }
  return total;
}

std::int64_t bytes_behind(const WordScene& scene, BoxedNumbers& boxed, const LogicalOp& op,
                          std::size_t mesh, const WordCandidate& candidate) {
  std::int64_t total = 0;
  for (std::size_t i = 0; i < op.outputs.size(); ++i)
    for (const LogicalGraph::Use& use : scene.graph.uses(op.outputs[i])) {
      const std::optional<MeshState>& wanted = scene.given.input({use.op, use.input});
      if (wanted)
        total += boxing_bytes(boxed, op.outputs[i], {mesh, candidate.outputs[i]},
                              {scene.mesh_of(scene.graph.op(use.op)), *wanted});
    }
  return total;
}

// What the device with the largest parts holds: memory and time are those of the fullest device,
// so a dim of one element that is split over two gains nothing. The first parts are the largest.
std::int64_t elements_of_fullest(const WordScene& scene, TensorId id, const MeshState& state,
                                 std::size_t mesh) {
  const Shape& shape = scene.tensor(id).type.shape;
  std::array<Interval, kMaxRank> box{};
  for (std::size_t dim = 0; dim < shape.rank(); ++dim) box[dim].extent = shape[dim];
  constexpr std::array<std::int64_t, kMaxMeshAxes> kFirst{};
  Cuts(state, scene.extents[mesh]).narrow(box, kFirst);
  std::int64_t elements = 1;
  for (std::size_t dim = 0; dim < shape.rank(); ++dim) elements *= box[dim].extent;
  return elements;
}

std::int64_t elements_of(const WordScene& scene, const LogicalOp& op, std::size_t mesh,
                         const WordCandidate& candidate) {
  std::int64_t total = 0;
  for (std::size_t i = 0; i < op.inputs.size(); ++i)
    total += elements_of_fullest(scene, op.inputs[i], candidate.inputs[i], mesh);
  for (std::size_t i = 0; i < op.outputs.size(); ++i)
    total += elements_of_fullest(scene, op.outputs[i], candidate.outputs[i], mesh);
  return total;
}

}  // namespace

bool waits_for_step(const LogicalOp& op) {
  return op.phase == Phase::kWeightGrad || op.phase == Phase::kOptimizer;
}

std::optional<WordCost> cost_of(const WordScene& scene, BoxedNumbers& boxed, OpId id,
                                std::size_t mesh, const WordCandidate& candidate) {
  const LogicalOp& op = scene.graph.op(id);
  WordCost cost;
  cost.bytes = bytes_before(scene, boxed, id, mesh, candidate);
  if (cost.bytes == kImpossible) return std::nullopt;
  cost.bytes += owed(scene, op, mesh, candidate);
  cost.later = bytes_behind(scene, boxed, op, mesh, candidate);
  cost.elements = elements_of(scene, op, mesh, candidate);
  return cost;
}

}  // namespace sextant
