// The members of a fused actor as calls of their own, for kernels that serve the whole with the
// arguments of its parts.
#pragma once

#include "actor/calls/kernel_context.h"

#include <cstddef>
#include <vector>

namespace sextant {

// Tensors that only members see have no data and no layout, and the type of the largest part.
class MemberCalls {
 public:
  explicit MemberCalls(const KernelContext& fused) {
    const Actor& whole = *fused.actor;
    actors_.resize(whole.members.size());
    for (std::size_t i = 0; i < actors_.size(); ++i) {
      const ActorMember& member = whole.members[i];
      actors_[i].kind = member.kind;
      actors_[i].name = member.name;
      actors_[i].attributes = member.attributes;
      KernelContext& call = calls_.emplace_back();
      call.actor = &actors_[i];
      call.hierarchy = fused.hierarchy;
      call.coordinates = fused.coordinates;
      call.seed = fused.seed;
      call.act = fused.act;
      for (const auto& in : member.in) call.in.push_back(operand(fused, in));
      for (const auto& out : member.out) {
        call.out.push_back(operand(fused, out));
        call.accumulate.push_back(out.source == Source::kOutput &&
                                  fused.accumulate[static_cast<std::size_t>(out.index)]);
      }
    }
  }
  MemberCalls(const MemberCalls&) = delete;
  MemberCalls& operator=(const MemberCalls&) = delete;

  KernelContext& operator[](std::size_t member) { return calls_[member]; }

 private:
  using Source = ActorMember::Operand::Source;

  static KernelOperand operand(const KernelContext& fused, const ActorMember::Operand& seen) {
    const auto index = static_cast<std::size_t>(seen.index);
    switch (seen.source) {
      case Source::kInput:
        return fused.in[index];
      case Source::kOutput:
        return fused.out[index];
      case Source::kInner:
        break;
    }
    KernelOperand inner;
    inner.local = fused.actor->inner[index].local;
    return inner;
  }

  std::vector<Actor> actors_;
  std::vector<KernelContext> calls_;
};

}  // namespace sextant
