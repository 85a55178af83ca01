// What lives from step to step, by names that do not depend on the plan: parameters, moments,
// counters. Contents are the device's.
#pragma once

#include "core/base/ids.h"
#include "core/graphs/physical_graph.h"
#include "core/tensors/sbp.h"
#include "core/tensors/shape.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace sextant {

// A state by whom it belongs to and what it is of that: "layer0.attention.q.weight" and
// "first_moment". Every plan of a model calls a state the same.
struct StateName {
  std::string owner, role;
  auto operator<=>(const StateName&) const = default;
};
inline constexpr const char* kParameterRole = "parameter";
std::string to_string(const StateName& name);  // "OWNER", of other roles "OWNER (ROLE)"

// Of output `output` of an actor that its instance calls `actor_name`: the role "parameter" is the
// first output, others are named by the kind of the update, or "state2" by their number.
StateName state_name(const Actor& actor, const std::string& actor_name, std::size_t output);

// One state register of a rank: content 0 of register `reg` of `instance`.
struct StateRegister {
  InstanceId instance;
  std::int32_t reg = 0;
  StateName name;
  TensorType global;
  Shard box;  // of the global tensor that the rank holds; may be empty
};

// In the order of instances and actors.
std::vector<StateRegister> state_registers(const PhysicalGraph& graph, Rank rank);

}  // namespace sextant
