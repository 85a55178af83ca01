// Local boxing as an operator of the physical graph: another layout of the same tensor, without
// communication. Only the compiler makes it, between operators whose words differ; both layouts of
// its operands say what it does (sbp/README.md, "Steps"), so it has no rows of its own.
#include "core/graphs/operator.h"
#include "core/operators/families.h"
#include "core/operators/rules.h"

#include <algorithm>

namespace sextant {
namespace {

std::vector<TensorType> infer_same(Types inputs, const Attributes&) { return {inputs[0]}; }

// Each output element is a copy or a neutral element, so no more is read than is written.
Work boxing_work(Types inputs, Types outputs, const Attributes&) {
  Work work = streaming_work(inputs, outputs, 0, "copy");
  work.read = std::min(work.read, work.written);
  return work;
}

Rows only_broadcast(Types, Types, const Attributes&) { return {all_broadcast(1, 1)}; }

}  // namespace

void add_boxing(OperatorRegistry& registry) {
  registry.add({.kind = "box_local",
                .role = OperatorRole::kBoxing,
                .infer = infer_same,
                .work = boxing_work,
                .signatures = only_broadcast});
}

}  // namespace sextant
