// The tables of a program, made part after part: each function adds its part and says what the next
// ones need. Internal to actor/protocol.
#pragma once

#include "actor/protocol/program_tables.h"
#include "core/base/at.h"
#include "core/base/error.h"

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
    return graph.block_of(program.instances[instance.index()]);
  }
  const std::string& name(InstanceId instance) const {
    return program.instances[instance.index()].name;
  }
  std::string text(std::int32_t run) const { return run_to_text(graph, id, RunId(run)); }
};

// The actors and the frames of all instances in rows, one instance behind the other.
struct ActorNumbers {
  std::vector<std::int32_t> first_actor, first_frame;  // by instance
  std::vector<std::int32_t> site_of_actor;

  std::int32_t site_of(InstanceId instance, std::int32_t actor) const {
    return site_of_actor[at(first_actor[instance.index()] + actor)];
  }
};

// Who writes what.
struct Writers {
  std::vector<std::int32_t> first_register;  // by instance, in the row of all registers
  std::vector<std::int32_t> of_register;     // an actor of the same instance
  std::vector<std::pair<std::int32_t, std::int32_t>> written;  // (site, frame), sorted
};

// What all parts throw: Error of this code.
inline constexpr ErrorCode kBadProgram = ErrorCode::kBadInput;

template <typename Value>
bool holds(const std::vector<Value>& values, std::int32_t index) {
  return index >= 0 && at(index) < values.size();
}

ActorNumbers add_sites(const ProgramSource& source, ProgramTables& tables);
void add_runs(const ProgramSource& source, const ActorNumbers& numbers, ProgramTables& tables);
Writers add_frames(const ProgramSource& source, const ActorNumbers& numbers, ProgramTables& tables);
void add_channels(const ProgramSource& source, const ActorNumbers& numbers, const Writers& writers,
                  ProgramTables& tables);
void add_guards(const ProgramSource& source, ProgramTables& tables);

}  // namespace sextant
