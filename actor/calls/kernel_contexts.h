// Contexts of one rank's calls, members of fused actors included: which part of each tensor the
// rank has, where it stands. Backends bring the addresses.
#pragma once

#include "actor/calls/kernel_context.h"
#include "actor/calls/named_actors.h"
#include "actor/calls/operands.h"
#include "core/graphs/physical_graph.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <vector>

namespace sextant {

// Contexts point into `graph` and into this object, which outlive them.
class KernelContexts {
 public:
  using Address = std::function<std::byte*(const BufferRef&)>;

  KernelContexts(const PhysicalGraph& graph, Rank rank, std::uint64_t seed, Address address);

  // Throws Error(kInternal) naming the register when the rank's part does not fit into the room
  // that its program gives it.
  KernelContext of_call(const ActorCall& call, const Run& run);

  // Most bytes that the tensors inside one fused actor of the program take.
  std::int64_t inner_bytes() const;
  // The members of a fused actor, in order, each as an operator of its own; `inner` has
  // `inner_bytes` bytes. Seed, act and place are those of the fused actor.
  std::vector<KernelContext> of_members(const KernelContext& fused, std::byte* inner);

 private:
  struct LocalLayout {
    Shard box;
    Shape shape;
  };

  KernelOperand operand(const BufferRef& buffer, const Actor& actor);
  KernelContext of_member(const KernelContext& fused, const ActorMember& member,
                          const std::vector<KernelOperand>& inner) const;
  std::vector<KernelOperand> inner_operands(const Actor& actor, std::byte* inner);
  const Actor& member_actor(const Actor& fused, std::size_t member);
  void set_coordinates(KernelContext& context) const;
  const LocalLayout& local(LayoutId layout);

  const PhysicalGraph& graph_;
  const Rank rank_;
  const RankProgram& program_;
  const std::uint64_t seed_;
  const Address address_;
  NamedActors actors_;
  std::map<LayoutId, LocalLayout> layouts_;
  // Members as actors, for their kernels; by fused actor.
  std::map<const Actor*, std::vector<Actor>> member_actors_;
};

}  // namespace sextant
