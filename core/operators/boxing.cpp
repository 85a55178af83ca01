// Local boxing as an operator of the physical graph: another layout of the same tensor, without
// communication. Only staging makes it, between operators whose words differ; both layouts of its
// operands say what it does (sbp/README.md, "Steps"), so it has no rows of its own.
#include "core/operator.h"
#include "core/operators/families.h"
#include "core/operators/rules.h"

namespace sextant {
namespace {

std::vector<TensorType> infer_same(Types inputs, const Attributes&) { return {inputs[0]}; }

Work copy_work(Types inputs, Types outputs, const Attributes&) {
  return streaming_work(inputs, outputs, 0, "copy");
}

Rows only_broadcast(Types, Types, const Attributes&) { return {all_broadcast(1, 1)}; }

}  // namespace

void add_boxing(OperatorRegistry& registry) {
  registry.add(
      {.kind = "box_local", .infer = infer_same, .work = copy_work, .signatures = only_broadcast});
}

}  // namespace sextant
