// A fused call whose members run one by one, on the host: the tensors between them.
#pragma once

#include "actor/calls/kernel_context.h"

#include <cstddef>
#include <vector>

namespace sextant {

class HostMemberCalls {
 public:
  // `fused` lies in memory of the host and outlives this.
  explicit HostMemberCalls(const KernelContext& fused);
  HostMemberCalls(const HostMemberCalls&) = delete;
  HostMemberCalls& operator=(const HostMemberCalls&) = delete;

  const std::vector<KernelContext>& calls() const { return calls_; }

 private:
  void add(const KernelContext& fused, const ActorMember& member);

  std::vector<std::vector<std::byte>> bytes_;
  std::vector<Layout> layouts_;
  std::vector<KernelOperand> inner_;
  std::vector<Actor> actors_;
  std::vector<KernelContext> calls_;
};

}  // namespace sextant
