// What the acts of host actors of one rank need beside counters: buffers and the call itself.
#pragma once

#include "actor/calls/named_actors.h"
#include "actor/calls/operands.h"
#include "actor/protocol/device.h"
#include "actor/protocol/program_tables.h"
#include "core/base/table.h"
#include "core/graphs/host_actors.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace sextant {

class HostCaller {
 public:
  // `first_step`: what actors call step 0.
  HostCaller(const PhysicalGraph& graph, Rank rank, const ProgramTables& tables, Device& device,
             HostActors& host, std::int64_t first_step);
  // Throws what the actor throws.
  void call(SiteId site, std::int64_t act);

 private:
  const PhysicalGraph* graph_;
  Rank rank_;
  const ProgramTables* tables_;
  Device* device_;
  HostActors* host_;
  std::int64_t first_step_;
  NamedActors actors_;
  Table<SiteId, std::vector<ActorCall>> calls_;  // empty for others; by act of the step
  std::vector<std::span<const std::byte>> inputs_;
  std::vector<std::span<std::byte>> outputs_;
};

}  // namespace sextant
