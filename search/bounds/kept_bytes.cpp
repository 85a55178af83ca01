// One walk through the operators of backward: what they read of forward.
#include "search/bounds/kept_bytes.h"

#include "compiler/order/partition.h"
#include "core/base/at.h"
#include "core/graphs/operator_role.h"
#include "core/tensors/shape.h"

#include <cstddef>
#include <cstdint>
#include <set>

namespace sextant {
namespace {

// The tensor whose bytes it has.
StagedTensorId behind_views(const StagedGraph& staged, StagedTensorId tensor) {
  while (true) {
    const StagedOp& producer = staged.ops[staged.tensors[tensor].producer];
    if (producer.role != OperatorRole::kView) return tensor;
    tensor = producer.in.front();
  }
}

// No larger than the largest part.
Bytes mean_part(const StagedGraph& staged, const StagedTensor& tensor) {
  const Placement& placement = at(staged.placements, tensor.stage);
  std::int64_t parts = 1;
  for (std::size_t axis = 0; axis < tensor.words.size(); ++axis)
    if (tensor.words[axis].is_split()) parts *= placement.axes[axis].extent;
  return Bytes(size_of(tensor.global).value / parts);
}

}  // namespace

Bytes kept_by_layer(const StagedGraph& staged, int layer) {
  const Partition partition(staged);
  const auto made_in = [&](StagedTensorId index) {
    const StagedTensor& tensor = staged.tensors[index];
    const bool is_of_forward =
        !tensor.is_state && partition.part(tensor.producer) == StepPart::kForward;
    return is_of_forward ? staged.ops[tensor.producer].layer : -1;
  };
  std::set<StagedTensorId> own, of_layer_before;
  for (const StagedOpId index : staged.ops.keys()) {
    const StagedOp& op = staged.ops[index];
    const StepPart part = partition.part(index);
    if (part != StepPart::kInputGrad && part != StepPart::kWeightGrad) continue;
    for (const StagedTensorId input : op.in) {
      const StagedTensorId root = behind_views(staged, input);
      const int made = made_in(root);
      if (op.layer == layer && (made == layer || made == layer - 1)) own.insert(root);
      if (op.layer == layer - 1 && made == layer - 1) of_layer_before.insert(root);
    }
  }
  Bytes kept;
  for (const StagedTensorId tensor : own)
    if (!of_layer_before.contains(tensor)) kept += mean_part(staged, staged.tensors[tensor]);
  return kept;
}

}  // namespace sextant
