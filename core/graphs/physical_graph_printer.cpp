// Prints the text form of physical graphs (physical_graph_text.md): a statement per line, each made
// by a function of the same name.
#include "core/base/check.h"
#include "core/graphs/block_edges.h"
#include "core/graphs/graph_names.h"
#include "core/graphs/physical_graph_text.h"

#include <fmt/core.h>

#include <cmath>
#include <cstdint>
#include <iterator>
#include <type_traits>
#include <utility>
#include <variant>

namespace sextant {
namespace {

template <typename... Args>
void add(std::string& text, fmt::format_string<Args...> format, Args&&... args) {
  fmt::format_to(std::back_inserter(text), format, std::forward<Args>(args)...);
}

// "{a, b}" of what `text_of` makes of each value.
template <typename Values, typename Function>
std::string list_text(const Values& values, Function text_of, std::string_view brackets = "{}") {
  std::string text(1, brackets[0]);
  for (const auto& value : values) {
    if (text.size() > 1) text += ", ";
    text += text_of(value);
  }
  return text + brackets[1];
}

std::string number_text(std::int64_t number) { return std::to_string(number); }
std::string bytes_text(Bytes bytes) { return std::to_string(bytes.value); }

// A number with the mark of a real: "3.0", "1e+25", "-inf".
std::string real_text(double value) {
  if (std::isnan(value)) return "nan";
  const std::string text = fmt::format("{}", value);
  return text.find_first_not_of("-0123456789") == std::string::npos ? text + ".0" : text;
}

// "{0, 2, 4 to 7}"
std::string ranks_text(const std::vector<Rank>& ranks) {
  std::string text = "{";
  for (std::size_t first = 0; first < ranks.size();) {
    std::size_t last = first;
    while (last + 1 < ranks.size() && ranks[last + 1].value == ranks[last].value + 1) ++last;
    if (last - first < 2) last = first;
    add(text, "{}{}", text.size() > 1 ? ", " : "", ranks[first].value);
    if (last > first) add(text, " to {}", ranks[last].value);
    first = last + 1;
  }
  return text + "}";
}

std::string type_text(const TensorType& type) {
  return fmt::format("{} {}", to_string(type.shape), to_string(type.dtype));
}

std::string attribute_text(const AttributeValue& value) {
  return std::visit(
      [](const auto& typed) -> std::string {
        using Typed = std::decay_t<decltype(typed)>;
        if constexpr (std::is_same_v<Typed, bool>) return typed ? "true" : "false";
        if constexpr (std::is_same_v<Typed, std::int64_t>) return number_text(typed);
        if constexpr (std::is_same_v<Typed, double>) return real_text(typed);
        if constexpr (std::is_same_v<Typed, std::string>) {
          const std::string text = quoted_unless_plain(typed);
          return text.front() == '"' ? text : "\"" + text + "\"";
        }
        if constexpr (std::is_same_v<Typed, std::vector<std::int64_t>>)
          return list_text(typed, number_text, "[]");
      },
      value);
}

void add_attributes(std::string& text, const Attributes& attributes) {
  if (attributes.entries().empty()) return;
  text += " " + list_text(attributes.entries(), [](const auto& entry) {
            return quoted_unless_plain(entry.first) + "=" + attribute_text(entry.second);
          });
}

void add_work(std::string& text, const Work& work) {
  if (work == Work()) return;
  text += " work";
  if (work.flops != 0) add(text, " flops {}", real_text(work.flops));
  if (work.read != Bytes()) add(text, " read {}", work.read.value);
  if (work.written != Bytes()) add(text, " written {}", work.written.value);
  if (!work.kernel.empty()) text += " kernel " + quoted_unless_plain(work.kernel);
}

void add_communication(std::string& text, const Actor& actor) {
  if (!actor.communication) return;
  const Communication& c = *actor.communication;
  add(text, " {} {} to {} as {} role {}", to_string(c.side), position_text(c.from.value),
      position_text(c.to.value), to_string(c.dtype), c.group);
  if (c.reduce != ReduceOp::kSum) add(text, " reduce {}", to_string(c.reduce));
  if (to_string(c.primitive) != actor.kind) add(text, " primitive {}", to_string(c.primitive));
}

std::string part_text(const Actor& actor, const ActorMember::Operand& part) {
  switch (part.source) {
    case ActorMember::Operand::Source::kInput:
      return "<" + position_text(part.index);
    case ActorMember::Operand::Source::kOutput:
      return ">" + position_text(part.index);
    case ActorMember::Operand::Source::kInner:
      break;
  }
  NameTable inner("inner tensor");
  for (const InnerTensor& tensor : actor.inner) inner.add(tensor.name);
  return inner.text_of(part.index);
}

// "KIND(a, b) -> c"
template <typename Inputs, typename Outputs, typename InText, typename OutText>
std::string call_text(const std::string& kind, const Inputs& in, InText in_text, const Outputs& out,
                      OutText out_text) {
  std::string text = quoted_unless_plain(kind) + list_text(in, in_text, "()");
  if (out.empty()) return text;
  const std::string outputs = list_text(out, out_text);
  return text + " -> " + outputs.substr(1, outputs.size() - 2);
}

void add_members(std::string& text, const Actor& actor) {
  for (const InnerTensor& inner : actor.inner)
    add(text, "    inner {} {} of {}\n", quoted_unless_plain(inner.name), type_text(inner.local),
        position_text(inner.layout.value));
  const auto part = [&](const ActorMember::Operand& operand) { return part_text(actor, operand); };
  for (const ActorMember& member : actor.members) {
    add(text, "    member {} {}", quoted_unless_plain(member.name),
        call_text(member.kind, member.in, part, member.out, part));
    add_attributes(text, member.attributes);
    text += "\n";
  }
}

void add_actor(std::string& text, const Block& block, const BlockNames& names, const Actor& actor) {
  const auto in = [&](const Operand& operand) {
    return operand.source == Operand::Source::kPort ? "<" + names.ports.text_of(operand.index)
                                                    : names.registers.text_of(operand.index);
  };
  const auto out = [&](std::int32_t reg) { return names.registers.text_of(reg); };
  add(text, "  actor {} {}", quoted_unless_plain(actor.name),
      call_text(actor.kind, actor.in, in, actor.out, out));
  if (actor.phase != block.phase) add(text, " phase {}", to_string(actor.phase));
  if (actor.queue != QueueRole::kCompute) add(text, " on {}", to_string(actor.queue));
  add_communication(text, actor);
  if (actor.in_place)
    add(text, " in_place <{} >{}", position_text(actor.in_place->in),
        position_text(actor.in_place->out));
  add_attributes(text, actor.attributes);
  add_work(text, actor.work);
  text += "\n";
  add_members(text, actor);
}

void add_frame(std::string& text, std::size_t index, const Frame& frame) {
  add(text, "  frame #{} {} {}", index, frame.size.value, to_string(frame.memory));
  if (frame.region != Region::kPrivate) add(text, " {}", to_string(frame.region));
  if (frame.acts_per_content != 1) add(text, " filled by {} acts", frame.acts_per_content);
  if (frame.initially_full) text += " state";
  text += "\n";
}

bool has_edges_of_operands(const Block& block) {
  Block derived;
  derived.actors = block.actors;
  derived.registers = block.registers;
  for (const Port& port : block.ports) derived.ports.push_back({port.name, port.local, {}});
  add_edges_of_operands(derived);
  return derived.edges == block.edges && derived.ports == block.ports;
}

void add_edges(std::string& text, const Block& block, const BlockNames& names) {
  if (has_edges_of_operands(block)) return;
  bool has_any = !block.edges.empty();
  for (std::size_t p = 0; p < block.ports.size(); ++p)
    for (const std::int32_t reader : block.ports[p].readers) {
      add(text, "  edge <{} -> {}\n", names.ports.text_of(static_cast<std::int32_t>(p)),
          names.actors.text_of(reader));
      has_any = true;
    }
  for (const Edge& edge : block.edges)
    add(text, "  edge {} -> {}{}{}\n", names.registers.text_of(edge.from_register),
        names.actors.text_of(edge.to_actor),
        edge.consume_for == 1 ? "" : fmt::format(" for {} acts", edge.consume_for),
        edge.control ? " control" : "");
  if (!has_any) text += "  no edges\n";
}

void add_block(std::string& text, const Block& block) {
  const BlockNames names = names_of(block);
  add(text, "\nblock {} {}\n", quoted_unless_plain(block.name), to_string(block.phase));
  for (std::size_t f = 0; f < block.frames.size(); ++f) add_frame(text, f, block.frames[f]);
  for (const Register& reg : block.registers)
    add(text, "  register {} {} of {} in {} at {}\n", quoted_unless_plain(reg.name),
        type_text(reg.local), position_text(reg.layout.value), position_text(reg.frame),
        reg.offset.value);
  for (const Port& port : block.ports)
    add(text, "  port {} {}\n", quoted_unless_plain(port.name), type_text(port.local));
  for (const Actor& actor : block.actors) add_actor(text, block, names, actor);
  add_edges(text, block, names);
}

void add_instance(std::string& text, const Instance& instance, const NameTable& blocks) {
  add(text, "  instance {} of {}", quoted_unless_plain(instance.name),
      blocks.text_of(instance.block.value));
  if (instance.layer != 0) add(text, " layer {}", instance.layer);
  if (instance.acts_per_step != 1) add(text, " acts {}", instance.acts_per_step);
  text += "\n";
  for (std::size_t f = 0; f < instance.frames.size(); ++f) {
    const FrameBinding& frame = instance.frames[f];
    add(text, "    slots #{} {} registers {} at {}\n", f, frame.num_registers,
        list_text(frame.slot_of_content, number_text), list_text(frame.slot_offsets, bytes_text));
  }
  if (instance.names != InstanceNames())
    add(text, "    names actors {} registers {} members {}\n",
        list_text(instance.names.actors, quoted_unless_plain),
        list_text(instance.names.registers, quoted_unless_plain),
        list_text(instance.names.members, quoted_unless_plain));
}

// The tables that links and runs of a program refer to.
struct ProgramNames {
  NameTable instances{"instance"};
  std::vector<std::shared_ptr<const BlockNames>> of_instance;

  // Of an instance that does not exist: nothing has a name.
  const BlockNames& of(InstanceId instance) const {
    static const BlockNames kNone;
    const bool exists = instance.value >= 0 && instance.index() < of_instance.size();
    return exists ? *of_instance[instance.index()] : kNone;
  }
};

void add_link(std::string& text, const Link& link, const ProgramNames& names) {
  add(text, "  link {} {} -> {} <{}{}\n", names.instances.text_of(link.from.value),
      names.of(link.from).registers.text_of(link.from_register),
      names.instances.text_of(link.to.value), names.of(link.to).ports.text_of(link.to_port),
      link.consume_for == 1 ? "" : fmt::format(" for {} acts", link.consume_for));
}

void add_run(std::string& text, const Run& run, const ProgramNames& names) {
  const NameTable& actors = names.of(run.instance).actors;
  add(text, "  run {} act {} {}", names.instances.text_of(run.instance.value), run.act,
      actors.text_of(run.first_actor));
  if (run.num_actors != 1)
    text += " to " + actors.text_of(std::int64_t{run.first_actor} + run.num_actors - 1);
  if (run.launch_group.is_valid()) add(text, " launch_group {}", run.launch_group);
}

void add_program(std::string& text, const RankProgram& program, const NameTable& blocks,
                 const InstanceNameTables& tables) {
  add(text, "\nprogram {} on {}", quoted_unless_plain(program.name),
      position_text(program.placement.value));
  if (program.num_group_roles != 0) add(text, " roles {}", program.num_group_roles);
  add(text, "\n  arena {} lower_bound {} peaks {}\n", program.arena.size.value,
      program.arena.lower_bound.value, list_text(program.arena.peak_by_class, bytes_text));
  ProgramNames names;
  for (const Instance& instance : program.instances) {
    add_instance(text, instance, blocks);
    names.instances.add(instance.name);
    names.of_instance.push_back(tables.of(instance));
  }
  for (const Link& link : program.links) add_link(text, link, names);
  for (const RunId i : program.order.keys()) {
    add_run(text, program.order[i], names);
    if (!program.guards.empty()) add(text, "  // {}", position_text(i.value));
    text += "\n";
  }
  for (const Guard& guard : program.guards) {
    add(text, "  guard {} after {}", position_text(guard.later.value),
        position_text(guard.earlier.value));
    if (guard.lag != 0) add(text, " lag {}", guard.lag);
    text += "\n";
  }
}

void add_header(std::string& text, const GraphHeader& header) {
  add(text, "graph {}", header.version);
  const auto add_hash = [&](std::string_view key, const std::string& hash) {
    if (!hash.empty()) add(text, " {} {}", key, quoted_unless_plain(hash));
  };
  add_hash("model", header.model_hash);
  add_hash("cluster", header.cluster_hash);
  add_hash("plan", header.plan_hash);
  text += "\n";
}

void add_placements(std::string& text, const PhysicalGraph& graph) {
  if (!graph.placements.empty()) text += "\n";
  const auto axis_text = [](const MeshAxis& axis) {
    return fmt::format("{}={}", quoted_unless_plain(axis.name), axis.extent);
  };
  for (const PlacementId i : graph.placements.keys())
    add(text, "placement #{} {} {}\n", i, list_text(graph.placements[i].axes, axis_text, "[]"),
        ranks_text(graph.placements[i].ranks));
  for (const LayoutId i : graph.layouts.keys())
    add(text, "layout #{} {} {} on {}\n", i, type_text(graph.layouts[i].global),
        to_string(graph.layouts[i].words), position_text(graph.layouts[i].placement.value));
}

void add_ranks(std::string& text, const PhysicalGraph& graph, const NameTable& programs) {
  NameTable groups("group");
  for (const DeviceGroup& group : graph.groups) groups.add(group.name);
  const auto group_text = [&](GroupId group) { return groups.text_of(group.value); };
  if (!graph.ranks.empty()) text += "\n";
  for (const Rank rank : graph.ranks.keys()) {
    const RankBinding& binding = graph.ranks[rank];
    add(text, "rank #{} {} at {}", rank, programs.text_of(binding.program.value),
        binding.index_in_placement);
    if (!binding.groups.empty()) text += " " + list_text(binding.groups, group_text);
    text += "\n";
  }
}

}  // namespace

std::string to_text(const PhysicalGraph& graph) {
  std::string text;
  add_header(text, graph.header);
  add_placements(text, graph);
  NameTable blocks("block"), programs("program");
  for (const Block& block : graph.blocks) {
    add_block(text, block);
    blocks.add(block.name);
  }
  if (!graph.groups.empty()) text += "\n";
  for (const DeviceGroup& group : graph.groups)
    add(text, "group {} {}\n", quoted_unless_plain(group.name), ranks_text(group.ranks));
  const InstanceNameTables tables(graph.blocks);
  for (const RankProgram& program : graph.programs) {
    add_program(text, program, blocks, tables);
    programs.add(program.name);
  }
  add_ranks(text, graph, programs);
  return text;
}

}  // namespace sextant
