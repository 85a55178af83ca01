// A call of one operator on whole tensors, as kernels and timers take it; operands lie nowhere.
#pragma once

#include "actor/calls/kernel_context.h"
#include "core/graphs/physical_graph.h"
#include "core/graphs/tensor_types.h"
#include "core/tensors/attributes.h"

#include <string>
#include <vector>

namespace sextant {

class OperatorCall {
 public:
  // Throws Error(kBadInput) for what the operator's shape rule refuses.
  OperatorCall(const std::string& kind, const std::vector<TensorType>& inputs,
               const Attributes& attributes);
  OperatorCall(const OperatorCall&) = delete;
  OperatorCall& operator=(const OperatorCall&) = delete;

  const KernelContext& context() const { return context_; }
  const Work& work() const { return actor_.work; }

 private:
  void add(const TensorType& type, std::vector<KernelOperand>& operands);

  Actor actor_;
  std::vector<Layout> layouts_;
  KernelContext context_;
};

}  // namespace sextant
