// Which words an operator takes over from what stands before and behind it.
#include "sbp/inference_parts.h"

#include <algorithm>

namespace sextant {
namespace {

// How many readers in a row may hand a split on before one has an operand that is split so: a
// scale, a cast and a change of shape stand between the gradient of a mean and the operator before
// it.
constexpr int kLookAhead = 4;

Sbp plain(const Sbp& word) { return word.is_split() ? Sbp::split(word.dim) : word; }

bool says(const MeshState& state, std::size_t axis, const Sbp& word) {
  return state.is_split(axis) && word.is_split() && state.dim(axis) == word.dim;
}

bool is_awaited(const WordScene& scene, TensorId id, const Sbp& word, std::size_t axis,
                int readers_ahead);

// Whether another operand of the reader is split as the row wants it, or what it makes is awaited.
bool is_row_awaited(const WordScene& scene, const LogicalOp& reader, std::size_t input,
                    const SbpSignature& row, std::size_t axis, int readers_ahead) {
  for (std::size_t beside = 0; beside < reader.inputs.size(); ++beside) {
    if (beside == input || !row.inputs[beside].is_split()) continue;
    for (const WordVersion& version : scene.versions[reader.inputs[beside].index()])
      if (says(version.state, axis, row.inputs[beside])) return true;
  }
  if (readers_ahead == 0) return false;
  for (std::size_t i = 0; i < reader.outputs.size(); ++i)
    if (row.outputs[i].is_split() &&
        is_awaited(scene, reader.outputs[i], row.outputs[i], axis, readers_ahead - 1))
      return true;
  return false;
}

// Whether some reader of the tensor has an operand beside it that is split so that the reader
// would take `word`, or is given that word, or hands it on to such a reader. So the gradient of a
// sum is split as what was summed is: that is what the next gradient is computed from.
bool is_awaited(const WordScene& scene, TensorId id, const Sbp& word, std::size_t axis,
                int readers_ahead) {
  for (const LogicalGraph::Use& use : scene.graph.uses(id)) {
    const std::optional<MeshState>& given = scene.given.input({use.op, use.input});
    if (given && says(*given, axis, word)) return true;
    for (const SbpSignature& row : scene.rows_of(scene.graph.op(use.op)))
      if (row.inputs[use.input] == plain(word) &&
          is_row_awaited(scene, scene.graph.op(use.op), use.input, row, axis, readers_ahead))
        return true;
  }
  return false;
}

// Whether every word of the outputs on this axis is B or awaited.
bool is_awaited(const WordScene& scene, const LogicalOp& op, const WordCandidate& candidate,
                std::size_t axis) {
  for (std::size_t i = 0; i < op.outputs.size(); ++i)
    if (!candidate.outputs[i].is_broadcast(axis) &&
        !is_awaited(scene, op.outputs[i], candidate.words.outputs[i][axis], axis, kLookAhead))
      return false;
  return true;
}

}  // namespace

bool honours_given_words(const WordScene& scene, OpId id, const WordCandidate& candidate) {
  const LogicalOp& op = scene.graph.op(id);
  for (std::size_t i = 0; i < op.inputs.size(); ++i) {
    if (!scene.given.allows({id, i}, candidate.inputs[i])) return false;
  }
  for (std::size_t i = 0; i < op.outputs.size(); ++i) {
    const std::optional<MeshState>& given = scene.given.tensor(op.outputs[i]);
    if (given && candidate.outputs[i] != *given) return false;
  }
  return true;
}

bool is_anchored(const WordScene& scene, OpId id, std::size_t mesh,
                 const WordCandidate& candidate) {
  const LogicalOp& op = scene.graph.op(id);
  const auto is_given = [&](TensorId output) { return scene.given.tensor(output).has_value(); };
  if (std::any_of(op.outputs.begin(), op.outputs.end(), is_given)) return true;
  for (std::size_t axis = 0; axis < scene.extents[mesh].size(); ++axis) {
    bool wants = false, has = false;
    for (std::size_t i = 0; i < op.inputs.size() && !has; ++i) {
      if (candidate.inputs[i].is_broadcast(axis)) continue;
      wants = true;
      has = scene.given.says({id, i}, axis);
      for (const WordVersion& version : scene.versions[op.inputs[i].index()])
        has = has || is_same_word(version.state, candidate.inputs[i], axis);
    }
    if (wants && !has) return false;
    if (!wants && !has && !is_awaited(scene, op, candidate, axis)) return false;
  }
  return true;
}

}  // namespace sextant
