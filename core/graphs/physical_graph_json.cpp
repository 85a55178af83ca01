// The physical graph as JSON text. Objects have named keys; the long tables are rows of numbers:
//   edge [from_register, to_actor, consume_for, control 0|1]
//   link [from, from_register, to, to_port, consume_for]
//   run  [instance, first_actor, num_actors, act, launch_group]
//   guard [later, earlier, lag]
// Operands are "r3" (register 3 of the block) or "p0" (port 0).
#include "core/base/check.h"
#include "core/graphs/physical_graph.h"
#include "core/text/json_text.h"

#include <nlohmann/json.hpp>

#include <cmath>

namespace sextant {
namespace {

using Json = nlohmann::ordered_json;

template <typename Value, typename Function>
Json list_of(const std::vector<Value>& values, Function function) {
  Json list = Json::array();
  for (const Value& value : values) list.push_back(function(value));
  return list;
}

template <typename Tag>
std::int32_t number(Id<Tag> id) {
  return id.value;
}
std::int64_t number(Bytes bytes) { return bytes.value; }

template <typename Value>
Json numbers_of(const std::vector<Value>& values) {
  return list_of(values, [](const Value& value) { return number(value); });
}

void add_type(Json& object, const TensorType& type) {
  object["shape"] = to_string(type.shape);
  object["dtype"] = to_string(type.dtype);
}

// JSON has no infinities and NaN; the attributes of operators may.
Json real_json(double value) {
  if (std::isfinite(value)) return value;
  return {{"real", std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf"}};
}

Json attributes_json(const Attributes& attributes) {
  Json object = Json::object();
  for (const auto& [name, value] : attributes.entries()) {
    object[name] = std::visit(
        [](const auto& typed) -> Json {
          if constexpr (std::is_same_v<decltype(typed), const double&>) return real_json(typed);
          return typed;
        },
        value);
  }
  return object;
}

Json placement_json(const Placement& placement) {
  const auto axis = [](const MeshAxis& value) { return Json::array({value.name, value.extent}); };
  return {{"axes", list_of(placement.axes, axis)}, {"ranks", numbers_of(placement.ranks)}};
}

Json layout_json(const Layout& layout) {
  Json object = Json::object();
  add_type(object, layout.global);
  object["words"] = to_string(layout.words);
  object["placement"] = layout.placement.value;
  return object;
}

Json operand_json(const Operand& operand) {
  const bool is_port = operand.source == Operand::Source::kPort;
  return fmt::format("{}{}", is_port ? 'p' : 'r', operand.index);
}

Json communication_json(const Communication& communication) {
  return {{"primitive", to_string(communication.primitive)},
          {"side", to_string(communication.side)},
          {"group", communication.group},
          {"reduce", to_string(communication.reduce)},
          {"dtype", to_string(communication.dtype)},
          {"from", communication.from.value},
          {"to", communication.to.value}};
}

Json work_json(const Work& work) {
  return {{"flops", real_json(work.flops)},
          {"read", work.read.value},
          {"written", work.written.value},
          {"kernel", work.kernel}};
}

Json member_operand_json(const ActorMember::Operand& operand) {
  constexpr std::string_view kLetters = "iot";  // input, output, inner tensor
  return fmt::format("{}{}", kLetters[static_cast<std::size_t>(operand.source)], operand.index);
}

Json member_json(const ActorMember& member) {
  return {{"kind", member.kind},
          {"name", member.name},
          {"in", list_of(member.in, member_operand_json)},
          {"out", list_of(member.out, member_operand_json)},
          {"attributes", attributes_json(member.attributes)}};
}

Json inner_json(const InnerTensor& inner) {
  Json object = {{"name", inner.name}, {"layout", inner.layout.value}};
  add_type(object, inner.local);
  return object;
}

Json actor_json(const Actor& actor) {
  Json object = {{"kind", actor.kind},
                 {"name", actor.name},
                 {"phase", to_string(actor.phase)},
                 {"queue", to_string(actor.queue)},
                 {"in", list_of(actor.in, operand_json)},
                 {"out", actor.out},
                 {"attributes", attributes_json(actor.attributes)},
                 {"work", work_json(actor.work)}};
  if (actor.communication) object["communication"] = communication_json(*actor.communication);
  if (actor.in_place) object["in_place"] = Json::array({actor.in_place->in, actor.in_place->out});
  if (!actor.members.empty()) {
    object["members"] = list_of(actor.members, member_json);
    object["inner"] = list_of(actor.inner, inner_json);
  }
  return object;
}

Json register_json(const Register& reg) {
  Json object = {{"name", reg.name}, {"layout", reg.layout.value}};
  add_type(object, reg.local);
  object["frame"] = reg.frame;
  object["offset"] = reg.offset.value;
  return object;
}

Json frame_json(const Frame& frame) {
  return {{"size", frame.size.value},
          {"memory", to_string(frame.memory)},
          {"region", to_string(frame.region)},
          {"acts_per_content", frame.acts_per_content},
          {"initially_full", frame.initially_full}};
}

Json edge_json(const Edge& edge) {
  return Json::array({edge.from_register, edge.to_actor, edge.consume_for, edge.control ? 1 : 0});
}

Json port_json(const Port& port) {
  Json object = {{"name", port.name}};
  add_type(object, port.local);
  object["readers"] = port.readers;
  return object;
}

Json block_json(const Block& block) {
  return {{"name", block.name},
          {"phase", to_string(block.phase)},
          {"frames", list_of(block.frames, frame_json)},
          {"registers", list_of(block.registers, register_json)},
          {"ports", list_of(block.ports, port_json)},
          {"actors", list_of(block.actors, actor_json)},
          {"edges", list_of(block.edges, edge_json)}};
}

Json binding_json(const FrameBinding& binding) {
  return {{"num_registers", binding.num_registers},
          {"slot_of_content", binding.slot_of_content},
          {"slot_offsets", numbers_of(binding.slot_offsets)}};
}

Json names_json(const InstanceNames& names) {
  return {{"actors", names.actors}, {"registers", names.registers}, {"members", names.members}};
}

Json instance_json(const Instance& instance) {
  Json object = {{"name", instance.name},
                 {"block", instance.block.value},
                 {"layer", instance.layer},
                 {"acts_per_step", instance.acts_per_step},
                 {"frames", list_of(instance.frames, binding_json)}};
  if (instance.names != InstanceNames()) object["names"] = names_json(instance.names);
  return object;
}

Json link_json(const Link& link) {
  return Json::array(
      {link.from.value, link.from_register, link.to.value, link.to_port, link.consume_for});
}

Json run_json(const Run& run) {
  return Json::array(
      {run.instance.value, run.first_actor, run.num_actors, run.act, run.launch_group});
}

Json guard_json(const Guard& guard) {
  return Json::array({guard.later.value, guard.earlier.value, guard.lag});
}

Json program_json(const RankProgram& program) {
  return {{"name", program.name},
          {"placement", program.placement.value},
          {"num_group_roles", program.num_group_roles},
          {"arena",
           {{"size", program.arena.size.value},
            {"lower_bound", program.arena.lower_bound.value},
            {"peak_by_class", numbers_of(program.arena.peak_by_class)}}},
          {"instances", list_of(program.instances, instance_json)},
          {"links", list_of(program.links, link_json)},
          {"order", list_of(program.order, run_json)},
          {"guards", list_of(program.guards, guard_json)}};
}

Json group_json(const DeviceGroup& group) {
  return {{"name", group.name}, {"ranks", numbers_of(group.ranks)}};
}

Json binding_json(const RankBinding& binding) {
  return {{"program", binding.program.value},
          {"index_in_placement", binding.index_in_placement},
          {"groups", numbers_of(binding.groups)}};
}

}  // namespace

std::string to_json_text(const PhysicalGraph& graph) {
  const Json header = {{"version", graph.header.version},
                       {"model_hash", graph.header.model_hash},
                       {"cluster_hash", graph.header.cluster_hash},
                       {"plan_hash", graph.header.plan_hash}};
  const auto rank_json = [](const RankBinding& binding) { return binding_json(binding); };
  return to_readable_text({{"header", header},
                           {"placements", list_of(graph.placements, placement_json)},
                           {"layouts", list_of(graph.layouts, layout_json)},
                           {"blocks", list_of(graph.blocks, block_json)},
                           {"programs", list_of(graph.programs, program_json)},
                           {"groups", list_of(graph.groups, group_json)},
                           {"ranks", list_of(graph.ranks, rank_json)}});
}

}  // namespace sextant
