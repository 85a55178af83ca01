// Forms -> blocks: what each class of ranks holds of every layout, and what its actors cost.
#include "compiler/expand/blocks.h"
#include "core/base/at.h"
#include "core/base/check.h"
#include "core/graphs/views.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace sextant {
namespace {

// Local types of one class, each layout worked out once.
class LocalTypes {
 public:
  LocalTypes(const LayoutTable& layouts, const Placement& placement,
             const ProgramClass& program_class)
      : layouts_(&layouts), placement_(&placement), member_(program_class.members.front()) {
    types_.resize(layouts.layouts().size());
    room_.resize(layouts.layouts().size());
    for (const LayoutId i : layouts.layouts().keys()) {
      const Layout& layout = layouts.layouts()[i];
      if (layout.placement == PlacementId(program_class.stage))
        types_[i] = local_type(layout, *placement_, member_);
      room_[i] = aligned(size_of(types_[i]).value);
    }
  }
  // Room for what the other class holds too.
  void widen(const LocalTypes& other) {
    for (const LayoutId i : room_.keys()) room_[i] = std::max(room_[i], other.room_[i]);
  }
  Bytes room(LayoutId layout) const { return Bytes(room_[layout]); }
  const TensorType& of(LayoutId layout) const { return types_[layout]; }

 private:
  const LayoutTable* layouts_;
  const Placement* placement_;
  std::int32_t member_;
  Table<LayoutId, TensorType> types_;
  Table<LayoutId, std::int64_t> room_;
};

// Of all classes. With `symmetric` those of a stage make room for each other's parts.
std::vector<LocalTypes> local_types(const LayoutTable& layouts,
                                    std::span<const ProgramClass> classes,
                                    const std::vector<Placement>& placements, bool symmetric) {
  std::vector<LocalTypes> types;
  for (const ProgramClass& one : classes)
    types.emplace_back(layouts, at(placements, one.stage), one);
  for (std::size_t c = 0; symmetric && c < classes.size(); ++c)
    for (std::size_t other = 0; other < classes.size(); ++other)
      if (other != c && classes[other].stage == classes[c].stage) types[c].widen(types[other]);
  return types;
}

struct OperandTypes {
  std::vector<TensorType> inputs, outputs;
};

OperandTypes types_of(const Block& block, const Actor& actor) {
  OperandTypes types;
  for (const Operand& in : actor.in)
    types.inputs.push_back(in.source == Operand::Source::kPort
                               ? at(block.ports, in.index).local
                               : at(block.registers, in.index).local);
  for (const std::int32_t out : actor.out) types.outputs.push_back(at(block.registers, out).local);
  return types;
}

// Of a fused actor: all that its members calculate, with the kernel of the one that calculates
// most, and the traffic of its own operands: what is inside stays on the chip.
Work work_of_members(const Actor& actor, const OperandTypes& types,
                     const OperatorRegistry& registry) {
  const auto type = [&](const ActorMember::Operand& operand) {
    switch (operand.source) {
      case ActorMember::Operand::Source::kInput:
        return at(types.inputs, operand.index);
      case ActorMember::Operand::Source::kOutput:
        return at(types.outputs, operand.index);
      case ActorMember::Operand::Source::kInner:
        return at(actor.inner, operand.index).local;
    }
    return TensorType();
  };
  Work total;
  std::optional<Flops> most;
  // A member that reads nothing else may read less than the whole: a slice.
  std::vector<Bytes> read(types.inputs.size());
  for (const ActorMember& member : actor.members) {
    OperandTypes own;
    for (const ActorMember::Operand& in : member.in) own.inputs.push_back(type(in));
    for (const ActorMember::Operand& out : member.out) own.outputs.push_back(type(out));
    const Work work = registry.get(member.kind).work(own.inputs, own.outputs, member.attributes);
    total.flops += work.flops;
    if (!most || work.flops > *most) {
      total.kernel = work.kernel;
      most = work.flops;
    }
    for (const ActorMember::Operand& in : member.in) {
      if (in.source != ActorMember::Operand::Source::kInput) continue;
      Bytes& own_read = at(read, in.index);
      own_read = std::max(own_read, member.in.size() == 1 ? work.read : size_of(type(in)));
    }
  }
  for (const Bytes bytes : read) total.read += bytes;
  for (const TensorType& output : types.outputs) total.written += size_of(output);
  return total;
}

Work work_of(const Block& block, const Actor& actor, const OperatorRegistry& registry) {
  if (is_view(actor)) return {0, {}, {}, "none"};
  const OperandTypes types = types_of(block, actor);
  if (!actor.members.empty()) return work_of_members(actor, types, registry);
  return registry.get(actor.kind).work(types.inputs, types.outputs, actor.attributes);
}

Block with_local_types(Block block, std::span<const LayoutId> ports, const LocalTypes& types) {
  for (const Actor& actor : block.actors)
    for (const std::int32_t out : actor.out) {
      Register& reg = at(block.registers, out);
      reg.local = types.of(reg.layout);
      if (actor.in_place) {
        reg.offset = at(block.registers, at(actor.in, actor.in_place->in).index).offset;
        continue;
      }
      Bytes& size = at(block.frames, reg.frame).size;
      reg.offset = size;
      size += types.room(reg.layout);
    }
  for (std::size_t port = 0; port < ports.size(); ++port)
    block.ports[port].local = types.of(ports[port]);
  for (Actor& actor : block.actors)
    for (InnerTensor& inner : actor.inner) inner.local = types.of(inner.layout);
  return block;
}

// Of two blocks of one form.
bool hold_equal_shapes(const Block& a, const Block& b) {
  const auto equal = [](const auto& x, const auto& y) { return x.local == y.local; };
  const auto equal_inside = [&](const Actor& x, const Actor& y) {
    return std::equal(x.inner.begin(), x.inner.end(), y.inner.begin(), equal);
  };
  return std::equal(a.registers.begin(), a.registers.end(), b.registers.begin(), equal) &&
         std::equal(a.ports.begin(), a.ports.end(), b.ports.begin(), equal) &&
         std::equal(a.actors.begin(), a.actors.end(), b.actors.begin(), equal_inside);
}

}  // namespace

BlockTable make_blocks(const BlockForms& forms, const LayoutTable& layouts,
                       std::span<const ProgramClass> classes,
                       const std::vector<Placement>& placements, const OperatorRegistry& registry,
                       bool symmetric) {
  const std::size_t num_forms = forms.ids().size();
  BlockTable table;
  table.block_of.assign(classes.size(), Table<FormId, BlockId>(num_forms));
  Table<FormId, std::vector<BlockId>> made(num_forms);
  const std::vector<LocalTypes> types = local_types(layouts, classes, placements, symmetric);
  for (std::size_t c = 0; c < classes.size(); ++c) {
    for (const FormId form : forms.ids()) {
      if (forms.stage_of(form) != classes[c].stage) continue;
      Block block = with_local_types(forms.form(form), forms.port_layouts(form), types[c]);
      std::vector<BlockId>& known = made[form];
      const auto same = std::find_if(known.begin(), known.end(), [&](BlockId id) {
        return hold_equal_shapes(table.blocks[id], block);
      });
      if (same != known.end()) {
        table.block_of[c][form] = *same;
        continue;
      }
      for (Actor& actor : block.actors)
        if (!actor.communication && actor.queue != QueueRole::kHost)
          actor.work = work_of(block, actor, registry);
      if (!known.empty()) block.name += fmt::format(".class{}", known.size());
      known.push_back(table.blocks.add(std::move(block)));
      table.block_of[c][form] = known.back();
    }
  }
  return table;
}

}  // namespace sextant
