// One pass over the operators of an instance each.
#include "compiler/expand/block_form.h"

#include "compiler/expand/block_names.h"
#include "core/base/at.h"
#include "core/graphs/block_edges.h"

#include <fmt/core.h>

#include <algorithm>
#include <string>
#include <utility>

namespace sextant {
namespace {

void sign_actor(const FormSource& source, StagedInstanceId instance, StagedOpId op,
                FormSymbols& symbols, FormSignature& signature) {
  const StagedOp& staged = source.partition.graph().ops[op];
  signature.insert(
      signature.end(),
      {symbols.kind(staged.kind).symbol, symbols.of(staged.attributes),
       static_cast<std::int64_t>(staged.phase), static_cast<std::int64_t>(staged.queue),
       static_cast<std::int64_t>(staged.in.size()), static_cast<std::int64_t>(staged.out.size())});
  for (const StagedTensorId in : staged.in) {
    const Operand read = source.operands.operand(instance, in);
    signature.push_back(read.source == Operand::Source::kPort ? -1 - read.index : read.index);
  }
  for (const StagedMember& member : staged.members) {
    signature.insert(signature.end(),
                     {symbols.kind(member.kind).symbol, symbols.of(member.attributes)});
    for (const auto* operands : {&member.in, &member.out})
      for (const StagedTensorId tensor : *operands) {
        const ActorMember::Operand seen = member_operand(staged, tensor);
        signature.insert(signature.end(), {static_cast<std::int64_t>(seen.source), seen.index});
      }
  }
  for (const StagedTensorId inner : staged.inner)
    signature.push_back(source.layouts.of(inner).value);
  if (!staged.communication) return;
  signature.insert(signature.end(),
                   {static_cast<std::int64_t>(staged.communication->primitive),
                    static_cast<std::int64_t>(staged.communication->side), source.groups.role(op),
                    static_cast<std::int64_t>(staged.communication->reduce),
                    static_cast<std::int64_t>(staged.communication->dtype),
                    source.layouts.from(op).value, source.layouts.to(op).value});
}

ActorMember make_member(const StagedOp& op, const StagedMember& member) {
  ActorMember made;
  made.kind = member.kind;
  made.name = without_layer(member.name);
  made.attributes = member.attributes;
  for (const StagedTensorId in : member.in) made.in.push_back(member_operand(op, in));
  for (const StagedTensorId out : member.out) made.out.push_back(member_operand(op, out));
  return made;
}

Actor make_actor(const FormSource& source, StagedInstanceId instance, StagedOpId op) {
  const StagedOp& staged = source.partition.graph().ops[op];
  Actor actor;
  actor.kind = staged.kind;
  actor.name = name_in_block(staged);
  actor.attributes = staged.attributes;
  actor.phase = staged.phase;
  actor.queue = staged.queue;
  for (const StagedTensorId in : staged.in)
    actor.in.push_back(source.operands.operand(instance, in));
  for (const StagedTensorId out : staged.out) actor.out.push_back(source.operands.register_of(out));
  for (const StagedMember& member : staged.members)
    actor.members.push_back(make_member(staged, member));
  for (const StagedTensorId inner : staged.inner)
    actor.inner.push_back({std::string(without_layer(source.partition.graph().tensors[inner].name)),
                           source.layouts.of(inner), TensorType{}});
  if (staged.communication)
    actor.communication = Communication{staged.communication->primitive,
                                        staged.communication->side,
                                        source.groups.role(op),
                                        staged.communication->reduce,
                                        staged.communication->dtype,
                                        source.layouts.from(op),
                                        source.layouts.to(op)};
  return actor;
}

void mark_in_place(Actor& actor, const RegisterHomes& homes) {
  if (actor.out.empty()) return;
  const std::int32_t from = at(homes.taken_from, actor.out.front());
  if (from < 0) return;
  const Operand taken{Operand::Source::kRegister, from};
  const auto in = std::find(actor.in.begin(), actor.in.end(), taken) - actor.in.begin();
  actor.in_place = Actor::InPlace{static_cast<std::int32_t>(in), 0};
}

}  // namespace

FormSignature signature_of(const FormSource& source, StagedInstanceId instance,
                           const RegisterHomes& homes, FormSymbols& symbols) {
  const InstanceSpec& spec = source.partition.instances()[instance];
  FormSignature signature{spec.stage, static_cast<std::int64_t>(spec.part),
                          static_cast<std::int64_t>(spec.ops.size())};
  for (const StagedOpId op : spec.ops) sign_actor(source, instance, op, symbols, signature);
  std::size_t reg = 0;
  for (const StagedOpId op : spec.ops)
    for (const StagedTensorId out : source.partition.graph().ops[op].out) {
      signature.push_back(source.layouts.of(out).value);
      signature.push_back(homes.frame[reg]);
      signature.push_back(homes.taken_from[reg++]);
    }
  for (const RegisterHomes::FrameKey& key : homes.keys)
    signature.insert(signature.end(),
                     {static_cast<std::int64_t>(key.frame.memory), key.frame.acts_per_content,
                      static_cast<std::int64_t>(key.frame.initially_full),
                      static_cast<std::int64_t>(key.frame.region)});
  for (const StagedTensorId port : source.operands.ports(instance))
    signature.push_back(source.layouts.of(port).value);
  return signature;
}

Block make_form(const FormSource& source, StagedInstanceId instance, const RegisterHomes& homes) {
  const StagedGraph& graph = source.partition.graph();
  const InstanceSpec& spec = source.partition.instances()[instance];
  Block block;
  block.name = fmt::format("stage{}.{}", spec.stage, instance_name(graph, spec));
  block.phase = graph.ops[spec.ops.front()].phase;
  // Forward again is where a backward pass begins.
  if (block.phase == Phase::kRecompute) block.phase = Phase::kInputGrad;
  block.actors.reserve(spec.ops.size());
  block.registers.reserve(homes.frame.size());
  for (const StagedOpId op : spec.ops) {
    block.actors.push_back(make_actor(source, instance, op));
    mark_in_place(block.actors.back(), homes);
    for (const StagedTensorId out : graph.ops[op].out) {
      Register reg;
      reg.name = without_layer(graph.tensors[out].name);
      reg.layout = source.layouts.of(out);
      reg.frame = homes.frame[block.registers.size()];
      block.registers.push_back(std::move(reg));
    }
  }
  for (const RegisterHomes::FrameKey& key : homes.keys) block.frames.push_back(key.frame);
  for (const StagedTensorId tensor : source.operands.ports(instance))
    block.ports.push_back(
        {std::string(without_layer(graph.tensors[tensor].name)), TensorType{}, {}});
  add_edges_of_operands(block);
  return block;
}

}  // namespace sextant
