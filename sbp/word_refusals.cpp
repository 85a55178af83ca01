// Refusals of inference, with what would do.
#include "core/base/check.h"
#include "core/base/divisors.h"
#include "core/base/nearest.h"
#include "sbp/inference_parts.h"

#include <fmt/core.h>

#include <string>

namespace sextant {
namespace {

// Would `parts` cut a group of the row, and is that to be refused rather than gathered?
bool cuts_groups(const WordScene& scene, OpId id, const SbpSignature& row, std::int64_t parts) {
  if (row.divisible == 0 || row.divisible % parts == 0) return false;
  return !scene.shares_groups(id) || parts % row.divisible != 0;
}

[[noreturn]] void refuse_cut(const WordScene& scene, OpId id, std::size_t input,
                             const MeshAxis& axis, const SbpSignature& row) {
  const LogicalOp& op = scene.graph.op(id);
  std::string would_do = comma_list(divisors_of(row.divisible));
  if (scene.shares_groups(id))
    would_do += fmt::format(", multiples of {} that cut no other groups", row.divisible);
  const std::string hint = fmt::format("{} that would do: {}", axis.name, would_do);
  throw Error(
      ErrorCode::kInfeasible,
      fmt::format("operator '{}' ({}) cannot keep {} of '{}' over {}={}: the parts would "
                  "cut one of {} groups; {}",
                  op.name, op.kind, to_string(row.inputs[input]),
                  scene.tensor(op.inputs[input]).name, axis.name, axis.extent, row.divisible, hint),
      {hint});
}

std::string text_of(const OpWords& words) {
  std::string text;
  for (const NdSbp& input : words.inputs) text += (text.empty() ? "" : ", ") + to_string(input);
  text += " -> ";
  for (std::size_t i = 0; i < words.outputs.size(); ++i)
    text += (i == 0 ? "" : ", ") + to_string(words.outputs[i]);
  return text;
}

}  // namespace

void require_whole_groups(const WordScene& scene, OpId id, std::size_t mesh,
                          const WordCandidate& chosen) {
  const LogicalOp& op = scene.graph.op(id);
  for (const SbpSignature& row : scene.rows_of(op))
    for (std::size_t axis = 0; axis < scene.extents[mesh].size(); ++axis)
      for (std::size_t i = 0; i < op.inputs.size(); ++i) {
        const std::int64_t parts = scene.extents[mesh][axis];
        if (!cuts_groups(scene, id, row, parts) || !row.inputs[i].is_split() ||
            !chosen.inputs[i].is_broadcast(axis) || scene.given.says({id, i}, axis))
          continue;
        for (const WordVersion& version : scene.versions[op.inputs[i].index()])
          if (version.mesh == mesh && version.state.is_split(axis) &&
              version.state.dim(axis) == row.inputs[i].dim)
            refuse_cut(scene, id, i, scene.stages[mesh].axes[axis], row);
      }
}

void refuse_words(const WordScene& scene, OpId id, std::size_t mesh, const WordList& candidates) {
  const LogicalOp& op = scene.graph.op(id);
  std::string message =
      fmt::format("operator '{}' ({}) on {} has no words that fit; inputs:", op.name, op.kind,
                  to_string(scene.stages[mesh]));
  for (std::size_t i = 0; i < op.inputs.size(); ++i) {
    const std::vector<WordVersion>& versions = scene.versions[op.inputs[i].index()];
    message += fmt::format("{} '{}'", i == 0 ? "" : ",", scene.tensor(op.inputs[i]).name);
    for (std::size_t v = 0; v < versions.size(); ++v)
      message +=
          fmt::format("{} {}", v == 0 ? "" : " or",
                      to_string(versions[v].state.words(scene.extents[versions[v].mesh].size())));
    if (const std::optional<MeshState>& given = scene.given.input({id, i}))
      message += fmt::format(", given {}", to_string(given->words(scene.extents[mesh].size())));
    if (const auto given = scene.constraints.inputs_on_axis.find({id, i});
        given != scene.constraints.inputs_on_axis.end())
      message += fmt::format(", given {} on {}", to_string(given->second.word),
                             scene.stages[mesh].axes[given->second.axis].name);
  }
  for (const TensorId output : op.outputs)
    if (const auto pin = scene.constraints.tensors.find(output);
        pin != scene.constraints.tensors.end())
      message +=
          fmt::format("; output '{}' given {}", scene.tensor(output).name, to_string(pin->second));
  message += "; candidates:";
  for (const WordCandidate& candidate : candidates.all)
    message += " [" + text_of(candidate.words) + "]";
  throw Error(ErrorCode::kInfeasible, message);
}

}  // namespace sextant
