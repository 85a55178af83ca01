// Types and work as the operator's definition infers them.
#include "experiments/operator_call.h"

#include "core/graphs/operator.h"

#include <utility>

namespace sextant {

OperatorCall::OperatorCall(const std::string& kind, const std::vector<TensorType>& inputs,
                           const Attributes& attributes) {
  const OperatorDef& def = builtin_operators().get(kind);
  const std::vector<TensorType> outputs = def.infer(inputs, attributes);
  actor_.kind = kind;
  actor_.name = kind;
  actor_.attributes = attributes;
  actor_.work = def.work(inputs, outputs, attributes);
  layouts_.reserve(inputs.size() + outputs.size());
  for (const TensorType& type : inputs) add(type, context_.in);
  for (const TensorType& type : outputs) add(type, context_.out);
  context_.accumulate.assign(outputs.size(), false);
  context_.actor = &actor_;
}

void OperatorCall::add(const TensorType& type, std::vector<KernelOperand>& operands) {
  layouts_.push_back({.global = type, .words = {}, .placement = {}});
  KernelOperand operand;
  operand.local = type;
  operand.layout = &layouts_.back();
  for (const std::int64_t extent : type.shape.extents())
    operand.box.dims.push_back({.offset = 0, .extent = extent});
  operands.push_back(std::move(operand));
}

}  // namespace sextant
