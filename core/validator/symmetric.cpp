// Rule M8: where members of a collective find each other's bytes in the symmetric region.
#include "core/validator/findings.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

namespace sextant::validator {
namespace {

// What one collective of a step reads or writes.
struct Buffer {
  const Register* reg = nullptr;
  std::optional<std::int64_t> address;  // in the arena; none: not in the symmetric region
};
// By role: the buffers of all collectives of a step, in issue order.
using BuffersByRole = std::vector<std::vector<Buffer>>;

class CollectiveBuffers {
 public:
  CollectiveBuffers(const PhysicalGraph& graph, const RankProgram& program)
      : graph_(graph), program_(program), operands_(program.instances.size()) {
    for (const Link& link : program.links) links_[{link.to, link.to_port}] = &link;
  }

  // Of the roles that are `wanted`.
  BuffersByRole find(const std::vector<bool>& wanted) {
    BuffersByRole buffers(at(program_.num_group_roles));
    for (const Run& run : program_.order) {
      const Block& block = graph_.block_of(program_.instances[run.instance]);
      for (std::int32_t a = run.first_actor; a < run.first_actor + run.num_actors; ++a) {
        const Actor& actor = at(block.actors, a);
        if (!actor.communication || actor.communication->primitive == Primitive::kTransfer)
          continue;
        const GroupRole role = actor.communication->group;
        if (role < 0 || role >= program_.num_group_roles) continue;  // refused by another rule
        if (!wanted[at(role)]) continue;
        for (const Place& place : operands(run.instance, a))
          at(buffers, role).push_back(buffer(place, run.act));
      }
    }
    return buffers;
  }

 private:
  // Where an operand lies in some act: the same for all acts, but for the content.
  struct Place {
    const Register* reg = nullptr;
    const FrameBinding* binding = nullptr;  // null: without an address
    std::int32_t acts_per_content = 1;      // 0: always content 0
  };

  // What an actor reads and writes.
  const std::vector<Place>& operands(InstanceId instance, std::int32_t a) {
    const Block& block = graph_.block_of(program_.instances[instance]);
    std::vector<std::optional<std::vector<Place>>>& of_instance = operands_[instance];
    if (of_instance.empty()) of_instance.resize(block.actors.size());
    std::optional<std::vector<Place>>& known = at(of_instance, a);
    if (known) return *known;
    known.emplace();
    const Actor& actor = at(block.actors, a);
    for (const Operand& in : actor.in) known->push_back(read(instance, block, a, in));
    for (const std::int32_t out : actor.out) {
      const Frame& frame = at(block.frames, at(block.registers, out).frame);
      known->push_back(place(instance, out, frame.acts_per_content));
    }
    return *known;
  }

  Place read(InstanceId instance, const Block& block, std::int32_t actor, const Operand& in) const {
    if (in.source == Operand::Source::kPort) {
      const auto link = links_.find({instance, in.index});
      if (link == links_.end()) return {};
      return place(link->second->from, link->second->from_register, link->second->consume_for);
    }
    for (const Edge& edge : block.edges)
      if (!edge.control && edge.from_register == in.index && edge.to_actor == actor)
        return place(instance, in.index, edge.consume_for);
    return {};
  }

  Place place(InstanceId owner, std::int32_t reg, std::int32_t acts_per_content) const {
    const Instance& instance = program_.instances[owner];
    const Block& block = graph_.block_of(instance);
    const Register& info = at(block.registers, reg);
    const Frame& frame = at(block.frames, info.frame);
    if (frame.region != Region::kSymmetric) return {.reg = &info};
    return {&info, &at(instance.frames, info.frame), frame.initially_full ? 0 : acts_per_content};
  }

  static Buffer buffer(const Place& place, std::int32_t act) {
    if (place.binding == nullptr) return {place.reg, std::nullopt};
    const FrameBinding& binding = *place.binding;
    const std::int32_t content = place.acts_per_content == 0 ? 0 : act / place.acts_per_content;
    if (content >= size_of(binding.slot_of_content)) return {};
    const std::int32_t slot = at(binding.slot_of_content, content);
    if (slot < 0 || slot >= size_of(binding.slot_offsets)) return {};
    return {place.reg, at(binding.slot_offsets, slot).value + place.reg->offset.value};
  }

  const PhysicalGraph& graph_;
  const RankProgram& program_;
  std::map<std::pair<InstanceId, std::int32_t>, const Link*> links_;  // by reader and port
  Table<InstanceId, std::vector<std::optional<std::vector<Place>>>> operands_;  // by actor
};

struct Member {
  ProgramId program;
  GroupRole role = 0;
  auto operator<=>(const Member&) const = default;
};

// Different (program, role) of each group; ranks of one program in one role lie alike.
Table<GroupId, std::vector<Member>> members_of_groups(const PhysicalGraph& graph) {
  Table<GroupId, std::vector<Member>> members(graph.groups.size());
  for (const RankBinding& rank : graph.ranks)
    for (std::size_t role = 0; role < rank.groups.size(); ++role)
      members[rank.groups[role]].push_back({rank.program, static_cast<GroupRole>(role)});
  for (std::vector<Member>& group : members) {
    std::sort(group.begin(), group.end());
    group.erase(std::unique(group.begin(), group.end()), group.end());
  }
  return members;
}

// Two members of a group, which is the first that has both.
struct MemberPair {
  Member first, other;
  GroupId group;
};

// Different pairs of the first member of each group and the others: groups of equal members look
// alike.
std::vector<MemberPair> pairs_of_members(const PhysicalGraph& graph) {
  const auto members = members_of_groups(graph);
  std::vector<MemberPair> pairs;
  std::set<std::pair<Member, Member>> known;
  for (const GroupId group : members.keys())
    for (std::size_t i = 1; i < members[group].size(); ++i) {
      const Member &first = members[group].front(), &other = members[group][i];
      if (known.emplace(first, other).second) pairs.push_back({first, other, group});
    }
  return pairs;
}

// The roles of each program that some pair has.
Table<ProgramId, std::vector<bool>> roles_of(const PhysicalGraph& graph,
                                             const std::vector<MemberPair>& pairs) {
  Table<ProgramId, std::vector<bool>> roles;
  for (const RankProgram& program : graph.programs)
    roles.emplace_back(at(program.num_group_roles), false);
  for (const MemberPair& pair : pairs)
    for (const Member& member : {pair.first, pair.other})
      roles[member.program][at(member.role)] = true;
  return roles;
}

void compare(const PhysicalGraph& graph, const DeviceGroup& group, const Member& first,
             const std::vector<Buffer>& expected, const Member& other,
             const std::vector<Buffer>& found, Findings& findings) {
  for (std::size_t i = 0; i < std::min(expected.size(), found.size()); ++i) {
    if (expected[i].address == found[i].address) continue;
    const auto place = [](const Buffer& buffer) {
      return buffer.address ? fmt::format("at byte {}", *buffer.address)
                            : std::string("outside the symmetric region");
    };
    findings.expect(false, "M8", "group '{}': '{}' lies {} in program '{}', but {} in program '{}'",
                    group.name, expected[i].reg ? expected[i].reg->name : "?", place(expected[i]),
                    graph.programs[first.program].name, place(found[i]),
                    graph.programs[other.program].name);
    return;
  }
}

bool has_symmetric_frames(const PhysicalGraph& graph) {
  return std::any_of(graph.blocks.begin(), graph.blocks.end(), [](const Block& block) {
    return std::any_of(block.frames.begin(), block.frames.end(),
                       [](const Frame& frame) { return frame.region == Region::kSymmetric; });
  });
}

}  // namespace

void check_symmetric(const PhysicalGraph& graph, Findings& findings) {
  if (!has_symmetric_frames(graph)) return;  // no buffer has an address here
  const std::vector<MemberPair> pairs = pairs_of_members(graph);
  const Table<ProgramId, std::vector<bool>> wanted = roles_of(graph, pairs);
  std::map<ProgramId, BuffersByRole> known;
  const auto buffers_of = [&](const Member& member) -> const std::vector<Buffer>& {
    const auto [place, is_new] = known.try_emplace(member.program);
    if (is_new)
      place->second =
          CollectiveBuffers(graph, graph.programs[member.program]).find(wanted[member.program]);
    return at(place->second, member.role);
  };
  for (const auto& [first, other, group] : pairs)
    compare(graph, graph.groups[group], first, buffers_of(first), other, buffers_of(other),
            findings);
}

}  // namespace sextant::validator
