// Operands of a fused chain (core/graphs/fused_kinds.h) by member: what comes from outside, what
// somebody outside wants, at which input a member reads the one before it.
#pragma once

#include "actor/calls/kernel_context.h"
#include "backends/cuda/kernels/shared/launch.h"

#include <algorithm>
#include <cstddef>

namespace sextant {

class Chain {
 public:
  explicit Chain(const KernelContext& fused) : fused_(fused) {}

  std::size_t size() const { return fused_.actor->members.size(); }
  const ActorMember& member(std::size_t member) const { return fused_.actor->members[member]; }

  // nullptr for what only members see, and for results of members that others see as well.
  const KernelOperand* input(std::size_t member, std::size_t index) const {
    const ActorMember::Operand& operand = this->member(member).in[index];
    if (operand.source != Source::kInput) return nullptr;
    return &fused_.in[static_cast<std::size_t>(operand.index)];
  }

  // The input of a member at which it reads output 0 of the member before.
  std::size_t link(std::size_t member) const {
    const auto& in = this->member(member).in;
    const auto found = std::find(in.begin(), in.end(), this->member(member - 1).out[0]);
    return static_cast<std::size_t>(found - in.begin());
  }

  // Of output 0 of a member: where it goes, nullptr when nobody outside wants it.
  void* output(std::size_t member) const {
    const ActorMember::Operand& operand = this->member(member).out[0];
    if (operand.source != Source::kOutput) return nullptr;
    return fused_.out[static_cast<std::size_t>(operand.index)].data;
  }
  bool accumulates(std::size_t member) const {
    const ActorMember::Operand& operand = this->member(member).out[0];
    return operand.source == Source::kOutput &&
           fused_.accumulate[static_cast<std::size_t>(operand.index)];
  }
  // Of output 0 of a member. What only members see is as large as the largest part.
  const TensorType& type(std::size_t member) const {
    const ActorMember::Operand& operand = this->member(member).out[0];
    const auto index = static_cast<std::size_t>(operand.index);
    return operand.source == Source::kOutput ? fused_.out[index].local
                                             : fused_.actor->inner[index].local;
  }

  // Of the last member, whose result somebody wants.
  const Shape& output_shape() const { return fused_.out.back().local.shape; }
  bool outputs_are_aligned() const {
    return std::all_of(fused_.out.begin(), fused_.out.end(), has_aligned_data);
  }

 private:
  using Source = ActorMember::Operand::Source;
  const KernelContext& fused_;
};

}  // namespace sextant
