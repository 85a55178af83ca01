// Which part of every operand the rank has, and fused actors taken apart.
#include "actor/calls/kernel_contexts.h"

#include "core/base/check.h"

#include <algorithm>
#include <utility>

namespace sextant {
namespace {

std::int64_t inner_bytes(const Actor& actor) {
  std::int64_t bytes = 0;
  for (const InnerTensor& inner : actor.inner) bytes += aligned(size_of(inner.local).value);
  return bytes;
}

}  // namespace

KernelContexts::KernelContexts(const PhysicalGraph& graph, Rank rank, std::uint64_t seed,
                               Address address)
    : graph_(graph),
      rank_(rank),
      program_(graph.program_of(rank)),
      seed_(seed),
      address_(std::move(address)),
      actors_(graph, graph.ranks[rank].program) {}

KernelContext KernelContexts::of_call(const ActorCall& call, const Run& run) {
  const Actor& actor = actors_.of(run.instance, *call.actor);
  KernelContext context;
  context.actor = &actor;
  for (const BufferRef& buffer : call.in) context.in.push_back(operand(buffer, actor));
  for (const BufferRef& buffer : call.out) context.out.push_back(operand(buffer, actor));
  context.accumulate = call.accumulate;
  set_coordinates(context);
  context.seed = seed_;
  context.act = {
      .layer = program_.instances[run.instance].layer, .step = 0, .micro_batch = run.act};
  return context;
}

std::int64_t KernelContexts::inner_bytes() const {
  std::int64_t most = 0;
  for (const Instance& instance : program_.instances)
    for (const Actor& actor : graph_.block_of(instance).actors)
      most = std::max(most, sextant::inner_bytes(actor));
  return most;
}

std::vector<KernelContext> KernelContexts::of_members(const KernelContext& fused,
                                                      std::byte* inner) {
  const Actor& actor = *fused.actor;
  const std::vector<KernelOperand> operands = inner_operands(actor, inner);
  std::vector<KernelContext> members;
  for (std::size_t i = 0; i < actor.members.size(); ++i) {
    members.push_back(of_member(fused, actor.members[i], operands));
    members.back().actor = &member_actor(actor, i);
  }
  return members;
}

const KernelContexts::LocalLayout& KernelContexts::local(LayoutId layout) {
  const auto found = layouts_.find(layout);
  if (found != layouts_.end()) return found->second;
  Shard box = shard_of(graph_, layout, rank_);
  Shape shape = box.local_shape();
  return layouts_.emplace(layout, LocalLayout{std::move(box), std::move(shape)}).first->second;
}

KernelOperand KernelContexts::operand(const BufferRef& buffer, const Actor& actor) {
  const Register& info = *buffer.info;
  const LocalLayout& part = local(info.layout);
  KernelOperand operand;
  operand.data = address_(buffer);
  operand.local = {part.shape, info.local.dtype};
  operand.layout = &graph_.layouts[info.layout];
  operand.box = part.box;
  require(size_of(operand.local) <= size_of(info.local), ErrorCode::kInternal,
          "rank {}: '{}' uses register '{}' as {}, but its program gives it room for {}",
          rank_.value, actor.name, info.name, to_string(part.shape), to_string(info.local.shape));
  require(buffer.offset.value + size_of(operand.local).value <= program_.arena.size.value,
          ErrorCode::kInternal, "rank {}: register '{}' of '{}' ends outside the arena",
          rank_.value, info.name, actor.name);
  return operand;
}

KernelContext KernelContexts::of_member(const KernelContext& fused, const ActorMember& member,
                                        const std::vector<KernelOperand>& inner) const {
  using Source = ActorMember::Operand::Source;
  KernelContext context;
  context.seed = fused.seed;
  context.act = fused.act;
  const auto operand = [&](const ActorMember::Operand& seen) {
    const auto index = static_cast<std::size_t>(seen.index);
    switch (seen.source) {
      case Source::kInput:
        return fused.in[index];
      case Source::kOutput:
        return fused.out[index];
      case Source::kInner:
        return inner[index];
    }
    return KernelOperand();
  };
  for (const ActorMember::Operand& in : member.in) context.in.push_back(operand(in));
  for (const ActorMember::Operand& out : member.out) {
    context.out.push_back(operand(out));
    context.accumulate.push_back(out.source == Source::kOutput &&
                                 fused.accumulate[static_cast<std::size_t>(out.index)]);
  }
  set_coordinates(context);
  return context;
}

std::vector<KernelOperand> KernelContexts::inner_operands(const Actor& actor, std::byte* inner) {
  std::byte* data = inner;
  std::vector<KernelOperand> operands;
  for (const InnerTensor& tensor : actor.inner) {
    const LocalLayout& part = local(tensor.layout);
    KernelOperand operand;
    operand.data = data;
    operand.local = {part.shape, tensor.local.dtype};
    operand.layout = &graph_.layouts[tensor.layout];
    operand.box = part.box;
    require(size_of(operand.local) <= size_of(tensor.local), ErrorCode::kInternal,
            "rank {}: '{}' uses '{}' as {}, but its program gives it room for {}", rank_.value,
            actor.name, tensor.name, to_string(part.shape), to_string(tensor.local.shape));
    data += aligned(size_of(tensor.local).value);
    operands.push_back(std::move(operand));
  }
  return operands;
}

const Actor& KernelContexts::member_actor(const Actor& fused, std::size_t member) {
  std::vector<Actor>& actors = member_actors_[&fused];
  if (actors.empty())
    for (const ActorMember& of : fused.members) {
      Actor actor;
      actor.kind = of.kind;
      actor.name = of.name;
      actor.attributes = of.attributes;
      actor.phase = fused.phase;
      actors.push_back(std::move(actor));
    }
  return actors[member];
}

void KernelContexts::set_coordinates(KernelContext& context) const {
  const std::vector<KernelOperand>& operands = context.out.empty() ? context.in : context.out;
  const PlacementId id = operands.empty() ? program_.placement : operands[0].layout->placement;
  const Placement& placement = graph_.placements[id];
  context.hierarchy = placement.hierarchy();
  context.coordinates = placement.coordinates_of(
      id == program_.placement ? static_cast<std::size_t>(graph_.ranks[rank_].index_in_placement)
                               : placement.index_of(rank_).value());
}

}  // namespace sextant
