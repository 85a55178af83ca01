// Actors of one program under the names that their instances give them: what kernels and host
// actors get, who draw by a name or speak of it.
#pragma once

#include "core/base/ids.h"
#include "core/graphs/physical_graph.h"

#include <cstdint>
#include <map>
#include <utility>

namespace sextant {

class NamedActors {
 public:
  // `graph` outlives this object.
  NamedActors(const PhysicalGraph& graph, ProgramId program)
      : graph_(graph), program_(graph.programs[program]) {}

  // The block's own actor where the instance has no other names. Lives as long as this object.
  const Actor& of(InstanceId instance, const Actor& actor) {
    const Instance& owner = program_.instances[instance];
    if (owner.names.actors.empty()) return actor;
    const auto index = static_cast<std::int32_t>(&actor - graph_.block_of(owner).actors.data());
    const auto known = named_.find({instance, index});
    if (known != named_.end()) return known->second;
    return named_.emplace(std::pair(instance, index), named_actor(graph_, owner, index))
        .first->second;
  }

 private:
  const PhysicalGraph& graph_;
  const RankProgram& program_;
  std::map<std::pair<InstanceId, std::int32_t>, Actor> named_;
};

}  // namespace sextant
