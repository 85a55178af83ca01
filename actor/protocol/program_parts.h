// The tables of a program, made part after part: each function adds its part and says what the next
// ones need. Internal to actor/protocol.
#pragma once

#include "actor/protocol/program_tables.h"
#include "core/base/at.h"
#include "core/base/error.h"
#include "core/base/ids.h"
#include "core/base/table.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace sextant {

// Where tables come from.
struct ProgramSource {
  const PhysicalGraph& graph;
  ProgramId id;
  const RankProgram& program;

  const Block& block(InstanceId instance) const {
    return graph.block_of(program.instances[instance]);
  }
  const std::string& name(InstanceId instance) const { return program.instances[instance].name; }
  std::string text(RunId run) const { return run_to_text(graph, id, run); }
};

// The actors and the frames of all instances in rows, one instance behind the other.
struct ActorNumbers {
  Table<InstanceId, std::int32_t> first_actor, first_frame;
  std::vector<SiteId> site_of_actor;

  SiteId site_of(InstanceId instance, std::int32_t actor) const {
    return site_of_actor[at(first_actor[instance] + actor)];
  }
};

// Who writes what.
struct Writers {
  Table<InstanceId, std::int32_t> first_register;        // in the row of all registers
  std::vector<std::int32_t> of_register;                 // an actor of the same instance
  std::vector<std::pair<SiteId, std::int32_t>> written;  // (site, frame), sorted
};

// What all parts throw: Error of this code.
inline constexpr ErrorCode kBadProgram = ErrorCode::kBadInput;

template <typename Value>
bool holds(const std::vector<Value>& values, std::int32_t index) {
  return index >= 0 && at(index) < values.size();
}
template <typename Key, typename Value>
bool holds(const Table<Key, Value>& values, Key key) {
  return values.contains(key);
}

ActorNumbers add_sites(const ProgramSource& source, ProgramTables& tables);
void add_runs(const ProgramSource& source, const ActorNumbers& numbers, ProgramTables& tables);
Writers add_frames(const ProgramSource& source, const ActorNumbers& numbers, ProgramTables& tables);
void add_channels(const ProgramSource& source, const ActorNumbers& numbers, const Writers& writers,
                  ProgramTables& tables);
void add_guards(const ProgramSource& source, ProgramTables& tables);

}  // namespace sextant
