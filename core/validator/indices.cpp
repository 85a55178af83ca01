// Rules I: every index names something and every count is possible. All other topics rely on them.
#include "core/validator/findings.h"

namespace sextant::validator {
namespace {

template <typename Value>
bool names(std::int32_t index, const std::vector<Value>& table) {
  return index >= 0 && index < size_of(table);
}

template <typename Key, typename Value>
bool names(Key key, const Table<Key, Value>& table) {
  return table.contains(key);
}

// Sums of two sizes cannot overflow.
constexpr std::int64_t kMaxBytes = std::int64_t{1} << 60;

bool is_size(Bytes bytes) { return bytes.value >= 0 && bytes.value <= kMaxBytes; }
bool is_size(const TensorType& type) {
  return type.shape.elements() <= kMaxBytes / size_of(type.dtype).value;
}

// The message of what a throwing check says, or nothing.
template <typename Check>
std::string refusal_of(Check check) {
  try {
    check();
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

void check_placements(const PhysicalGraph& graph, Findings& findings) {
  for (const PlacementId i : graph.placements.keys()) {
    const Placement& placement = graph.placements[i];
    const std::string refusal = refusal_of([&] { validate(placement); });
    findings.expect(refusal.empty(), "I2", "placement {}: {}", i, refusal);
    for (const Rank rank : placement.ranks)
      findings.expect(names(rank, graph.ranks), "I3", "placement {} holds rank {} of {}", i,
                      rank.value, graph.ranks.size());
  }
}

void check_layouts(const PhysicalGraph& graph, Findings& findings) {
  for (const LayoutId i : graph.layouts.keys()) {
    const Layout& layout = graph.layouts[i];
    if (!findings.expect(names(layout.placement, graph.placements), "I4",
                         "layout {} is on placement {} of {}", i, layout.placement.value,
                         graph.placements.size()))
      continue;
    const Placement& placement = graph.placements[layout.placement];
    const std::vector<std::int64_t> origin(placement.axes.size(), 0);
    const std::string refusal = refusal_of([&] {
      static_cast<void>(shard_of(layout.global.shape, layout.words, placement.hierarchy(), origin));
    });
    findings.expect(refusal.empty(), "I5", "layout {} on {}: {}", i, to_string(placement), refusal);
  }
}

void check_register_indices(const PhysicalGraph& graph, const Block& block, Findings& findings) {
  for (const Register& reg : block.registers)
    findings.expect(names(reg.layout, graph.layouts) && names(reg.frame, block.frames), "I6",
                    "block '{}': register '{}' names layout {} of {} and frame {} of {}",
                    block.name, reg.name, reg.layout.value, graph.layouts.size(), reg.frame,
                    block.frames.size());
}

void check_actor_indices(const PhysicalGraph& graph, const Block& block, const Actor& actor,
                         Findings& findings) {
  for (const Operand& operand : actor.in) {
    const bool is_port = operand.source == Operand::Source::kPort;
    findings.expect(
        is_port ? names(operand.index, block.ports) : names(operand.index, block.registers), "I7",
        "block '{}': actor '{}' reads {} {}, which does not exist", block.name, actor.name,
        is_port ? "port" : "register", operand.index);
  }
  for (const std::int32_t reg : actor.out)
    findings.expect(names(reg, block.registers), "I8",
                    "block '{}': actor '{}' writes register {} of {}", block.name, actor.name, reg,
                    block.registers.size());
  if (actor.communication)
    findings.expect(names(actor.communication->from, graph.layouts) &&
                        names(actor.communication->to, graph.layouts),
                    "I9", "block '{}': '{}' communicates between layouts {} and {} of {}",
                    block.name, actor.name, actor.communication->from.value,
                    actor.communication->to.value, graph.layouts.size());
  if (actor.in_place)
    findings.expect(names(actor.in_place->in, actor.in) && names(actor.in_place->out, actor.out),
                    "I10", "block '{}': '{}' puts output {} of {} into input {} of {}", block.name,
                    actor.name, actor.in_place->out, actor.out.size(), actor.in_place->in,
                    actor.in.size());
}

// Members and inner tensors of a fused actor.
void check_members(const PhysicalGraph& graph, const Block& block, const Actor& actor,
                   Findings& findings) {
  for (const InnerTensor& inner : actor.inner)
    findings.expect(names(inner.layout, graph.layouts), "I29",
                    "block '{}': '{}' inside '{}' names layout {} of {}", block.name, inner.name,
                    actor.name, inner.layout.value, graph.layouts.size());
  for (const ActorMember& member : actor.members)
    for (const auto* operands : {&member.in, &member.out})
      for (const ActorMember::Operand& operand : *operands) {
        bool exists = false;
        switch (operand.source) {
          case ActorMember::Operand::Source::kInput:
            exists = names(operand.index, actor.in);
            break;
          case ActorMember::Operand::Source::kOutput:
            exists = names(operand.index, actor.out);
            break;
          case ActorMember::Operand::Source::kInner:
            exists = names(operand.index, actor.inner);
            break;
        }
        findings.expect(exists, "I30",
                        "block '{}': member '{}' of '{}' has operand {}, which does not exist",
                        block.name, member.name, actor.name, operand.index);
      }
}

void check_edges_and_ports(const Block& block, Findings& findings) {
  for (const Edge& edge : block.edges)
    findings.expect(names(edge.from_register, block.registers) &&
                        names(edge.to_actor, block.actors) && edge.consume_for >= 1,
                    "I11",
                    "block '{}': an edge from register {} of {} to actor {} of {}, one content "
                    "for {} acts",
                    block.name, edge.from_register, block.registers.size(), edge.to_actor,
                    block.actors.size(), edge.consume_for);
  for (const Port& port : block.ports)
    for (const std::int32_t reader : port.readers)
      findings.expect(names(reader, block.actors), "I12",
                      "block '{}': port '{}' is read by actor {} of {}", block.name, port.name,
                      reader, block.actors.size());
}

void check_block_sizes(const Block& block, Findings& findings) {
  const auto expect = [&](bool holds, std::string_view what) {
    findings.expect(holds, "I27", "block '{}': the {} is not between 0 and 2^60 bytes", block.name,
                    what);
  };
  for (const Frame& frame : block.frames) expect(is_size(frame.size), "size of a frame");
  for (const Port& port : block.ports) expect(is_size(port.local), "size of a port");
  for (const Register& reg : block.registers) {
    expect(is_size(reg.local), "size of a register");
    expect(is_size(reg.offset), "offset of a register");
  }
  for (const Actor& actor : block.actors)
    for (const InnerTensor& inner : actor.inner)
      expect(is_size(inner.local), "size of an inner tensor");
}

void check_program_sizes(const RankProgram& program, Findings& findings) {
  const auto expect = [&](Bytes bytes, std::string_view what) {
    findings.expect(is_size(bytes), "I28", "program '{}': the {} is not between 0 and 2^60 bytes",
                    program.name, what);
  };
  expect(program.arena.size, "size of the arena");
  expect(program.arena.lower_bound, "lower bound of the arena");
  for (const Instance& instance : program.instances)
    for (const FrameBinding& frame : instance.frames)
      for (const Bytes offset : frame.slot_offsets) expect(offset, "offset of a slot");
}

void check_block(const PhysicalGraph& graph, const Block& block, Findings& findings) {
  for (const Frame& frame : block.frames)
    findings.expect(frame.acts_per_content >= 1, "I13",
                    "block '{}': a frame of {} acts per content", block.name,
                    frame.acts_per_content);
  check_block_sizes(block, findings);
  check_register_indices(graph, block, findings);
  for (const Actor& actor : block.actors) {
    check_actor_indices(graph, block, actor, findings);
    check_members(graph, block, actor, findings);
  }
  check_edges_and_ports(block, findings);
}

bool check_instances(const PhysicalGraph& graph, const RankProgram& program, Findings& findings) {
  bool all_hold = true;
  for (const Instance& instance : program.instances) {
    const bool has_block =
        findings.expect(names(instance.block, graph.blocks), "I14",
                        "program '{}': instance '{}' uses block {} of {}", program.name,
                        instance.name, instance.block.value, graph.blocks.size());
    all_hold &= has_block;
    if (!has_block) continue;
    all_hold &=
        findings.expect(instance.acts_per_step >= 1 && instance.layer >= 0, "I15",
                        "program '{}': instance '{}' of layer {} acts {} times per step",
                        program.name, instance.name, instance.layer, instance.acts_per_step);
    const Block& block = graph.block_of(instance);
    all_hold &=
        findings.expect(instance.frames.size() == block.frames.size(), "I16",
                        "program '{}': instance '{}' binds {} frames, its block has {}",
                        program.name, instance.name, instance.frames.size(), block.frames.size());
    const InstanceNames& given = instance.names;
    all_hold &= findings.expect(
        given == InstanceNames() ||
            (given.actors.size() == block.actors.size() &&
             given.registers.size() == block.registers.size() &&
             static_cast<std::int64_t>(given.members.size()) == num_members(block)),
        "I31",
        "program '{}': instance '{}' names {} actors, {} registers and {} members, its block has "
        "{}, {} and {}",
        program.name, instance.name, given.actors.size(), given.registers.size(),
        given.members.size(), block.actors.size(), block.registers.size(), num_members(block));
    for (const FrameBinding& frame : instance.frames)
      findings.expect(frame.num_registers >= 1, "I17",
                      "program '{}': a frame of instance '{}' has {} registers", program.name,
                      instance.name, frame.num_registers);
  }
  return all_hold;
}

void check_links(const PhysicalGraph& graph, const RankProgram& program, Findings& findings) {
  for (std::size_t i = 0; i < program.links.size(); ++i) {
    const Link& link = program.links[i];
    const bool has_ends =
        names(link.from, program.instances) && names(link.to, program.instances) &&
        names(link.from_register, graph.block_of(program.instances[link.from]).registers) &&
        names(link.to_port, graph.block_of(program.instances[link.to]).ports);
    findings.expect(has_ends && link.consume_for >= 1, "I18",
                    "program '{}': link {} goes from register {} of instance {} to port {} of "
                    "instance {}, one content for {} acts",
                    program.name, i, link.from_register, link.from.value, link.to_port,
                    link.to.value, link.consume_for);
  }
}

void check_runs(const PhysicalGraph& graph, const RankProgram& program, Findings& findings) {
  for (const RunId i : program.order.keys()) {
    const Run& run = program.order[i];
    if (!findings.expect(names(run.instance, program.instances), "I19",
                         "program '{}': run {} is of instance {} of {}", program.name, i,
                         run.instance.value, program.instances.size()))
      continue;
    const Instance& instance = program.instances[run.instance];
    const auto num_actors = static_cast<std::int64_t>(graph.block_of(instance).actors.size());
    findings.expect(run.first_actor >= 0 && run.num_actors >= 1 &&
                        std::int64_t{run.first_actor} + run.num_actors <= num_actors,
                    "I20", "program '{}': run {} holds {} actors from {} on, instance '{}' has {}",
                    program.name, i, run.num_actors, run.first_actor, instance.name, num_actors);
    findings.expect(run.act >= 0 && run.act < instance.acts_per_step, "I21",
                    "program '{}': run {} is act {} of {} of instance '{}'", program.name, i,
                    run.act, instance.acts_per_step, instance.name);
  }
}

void check_program(const PhysicalGraph& graph, const RankProgram& program, Findings& findings) {
  findings.expect(names(program.placement, graph.placements), "I22",
                  "program '{}' is on placement {} of {}", program.name, program.placement.value,
                  graph.placements.size());
  check_program_sizes(program, findings);
  if (check_instances(graph, program, findings)) {
    check_links(graph, program, findings);
    check_runs(graph, program, findings);
  }
  for (std::size_t i = 0; i < program.guards.size(); ++i) {
    const Guard& guard = program.guards[i];
    findings.expect(names(guard.later, program.order) && names(guard.earlier, program.order) &&
                        (guard.lag == 0 || guard.lag == 1),
                    "I23", "program '{}': guard {} orders run {} after run {} with lag {}",
                    program.name, i, guard.later.value, guard.earlier.value, guard.lag);
  }
}

void check_ranks(const PhysicalGraph& graph, Findings& findings) {
  for (const Rank rank : graph.ranks.keys()) {
    const RankBinding& binding = graph.ranks[rank];
    findings.expect(names(binding.program, graph.programs), "I24", "rank {} runs program {} of {}",
                    rank, binding.program.value, graph.programs.size());
    for (const GroupId group : binding.groups)
      findings.expect(names(group, graph.groups), "I25", "rank {} is in group {} of {}", rank,
                      group.value, graph.groups.size());
  }
  for (const DeviceGroup& group : graph.groups)
    for (const Rank rank : group.ranks)
      findings.expect(names(rank, graph.ranks), "I26", "group '{}' holds rank {} of {}", group.name,
                      rank.value, graph.ranks.size());
}

}  // namespace

void check_indices(const PhysicalGraph& graph, Findings& findings) {
  findings.expect(graph.header.version == GraphHeader().version, "I1",
                  "a graph of version {}, wanted {}", graph.header.version, GraphHeader().version);
  check_placements(graph, findings);
  // Boxes need extents of at least one.
  if (findings.empty()) check_layouts(graph, findings);
  for (const Block& block : graph.blocks) check_block(graph, block, findings);
  // Programs walk through blocks.
  if (findings.empty())
    for (const RankProgram& program : graph.programs) check_program(graph, program, findings);
  check_ranks(graph, findings);
}

}  // namespace sextant::validator
