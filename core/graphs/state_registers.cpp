// States are the outputs of actors whose frames are full before the first step.
#include "core/graphs/state_registers.h"

#include "core/base/at.h"

#include <array>
#include <span>
#include <string_view>

namespace sextant {
namespace {

// What the kinds of updates keep, by output.
struct Roles {
  std::string_view kind;
  std::array<std::string_view, 4> names;
};
constexpr std::array<Roles, 5> kRoles = {{
    {"sgd", {kParameterRole, "updates"}},
    {"momentum", {kParameterRole, "momentum", "updates"}},
    {"adamw", {kParameterRole, "first_moment", "second_moment", "updates"}},
    {"lamb_direction", {"direction", "first_moment", "second_moment", "updates"}},
    {"loss_scale_update", {kParameterRole, "updates_without_overflow"}},
}};

std::string role_of(std::string_view kind, std::size_t output) {
  for (const Roles& roles : kRoles)
    if (roles.kind == kind && output < roles.names.size() && !roles.names[output].empty())
      return std::string(roles.names[output]);
  return output == 0 ? kParameterRole : "state" + std::to_string(output);
}

}  // namespace

std::string to_string(const StateName& name) {
  return name.role == kParameterRole ? name.owner : name.owner + " (" + name.role + ")";
}

StateName state_name(const Actor& actor, const std::string& actor_name, std::size_t output) {
  return {actor.attributes.contains("parameter") ? actor.attributes.text("parameter") : actor_name,
          role_of(actor.kind, output)};
}

std::vector<StateRegister> state_registers(const PhysicalGraph& graph, Rank rank) {
  std::vector<StateRegister> states;
  const std::span<const Instance> instances = graph.program_of(rank).instances;
  for (std::size_t i = 0; i < instances.size(); ++i) {
    const Block& block = graph.block_of(instances[i]);
    for (std::size_t a = 0; a < block.actors.size(); ++a) {
      const Actor& actor = block.actors[a];
      for (std::size_t output = 0; output < actor.out.size(); ++output) {
        const Register& reg = at(block.registers, actor.out[output]);
        if (!at(block.frames, reg.frame).initially_full) continue;
        const std::string& name = graph.actor_name(instances[i], static_cast<std::int32_t>(a));
        states.push_back({InstanceId(i), actor.out[output], state_name(actor, name, output),
                          graph.layouts[reg.layout].global, shard_of(graph, reg.layout, rank)});
      }
    }
  }
  return states;
}

}  // namespace sextant
