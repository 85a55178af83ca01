// Tensors between members have whole boxes.
#include "tests/conformance/operators/host_member_calls.h"

#include "tests/conformance/operators/kernel_cases.h"

#include <cstdint>

namespace sextant {

HostMemberCalls::HostMemberCalls(const KernelContext& fused) {
  const Actor& actor = *fused.actor;
  bytes_.reserve(actor.inner.size());
  layouts_.reserve(actor.inner.size());
  actors_.reserve(actor.members.size());
  for (const InnerTensor& tensor : actor.inner) {
    bytes_.emplace_back(static_cast<std::size_t>(size_of(tensor.local).value));
    layouts_.push_back({.global = tensor.local, .words = {}, .placement = {}});
    inner_.push_back({.data = bytes_.back().data(),
                      .local = tensor.local,
                      .layout = &layouts_.back(),
                      .box = whole_operand(tensor.local).box});
  }
  for (const ActorMember& member : actor.members) add(fused, member);
}

void HostMemberCalls::add(const KernelContext& fused, const ActorMember& member) {
  using Source = ActorMember::Operand::Source;
  const auto operand = [&](const ActorMember::Operand& seen) {
    const auto index = static_cast<std::size_t>(seen.index);
    return seen.source == Source::kInput    ? fused.in[index]
           : seen.source == Source::kOutput ? fused.out[index]
                                            : inner_[index];
  };
  Actor actor;
  actor.kind = member.kind;
  actor.name = member.name;
  actor.attributes = member.attributes;
  actors_.push_back(std::move(actor));
  KernelContext call;
  call.actor = &actors_.back();
  for (const ActorMember::Operand& in : member.in) call.in.push_back(operand(in));
  for (const ActorMember::Operand& out : member.out) {
    call.out.push_back(operand(out));
    call.accumulate.push_back(out.source == Source::kOutput &&
                              fused.accumulate[static_cast<std::size_t>(out.index)]);
  }
  calls_.push_back(std::move(call));
}

}  // namespace sextant
