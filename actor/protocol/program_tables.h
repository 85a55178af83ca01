// A rank program as flat tables: sites, channels, frames, runs and guards with everything that is
// the same in every step. Read by the protocol, which adds the counters. No state.
#pragma once

#include "core/base/at.h"
#include "core/base/ids.h"
#include "core/base/table.h"
#include "core/graphs/physical_graph.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace sextant {

using SiteId = Id<struct SiteTag>;  // in ProgramTables::sites

// Actors of one instance that are always issued together; a host actor is a site of its own.
struct Site {
  InstanceId instance;
  std::int32_t first_actor = 0, num_actors = 0;
  QueueRole queue = QueueRole::kCompute;
  std::int32_t acts_per_step = 1;
  std::int32_t first_input = 0, num_inputs = 0;  // in ProgramTables::inputs
  std::int32_t first_write = 0, num_writes = 0;  // in ProgramTables::writes
  bool is_beside = false;  // a host actor that host actors alone exchange with

  bool is_host() const { return queue == QueueRole::kHost; }
  bool operator==(const Site&) const = default;
};

// A frame that a site writes.
struct SiteWrite {
  std::int32_t frame = 0;                            // in ProgramTables::frames
  std::int32_t first_channel = 0, num_channels = 0;  // those this site Reqs
  bool operator==(const SiteWrite&) const = default;
};

// All edges from `producer` to `consumer` with this frame and rate. A writer that nobody reads has
// a channel without consumer: it acks itself.
struct Channel {
  std::int32_t frame = 0;
  SiteId producer, consumer;  // no consumer: the producer acks itself
  std::int32_t consume_for = 1;
  std::int32_t ring = 0;  // its num_registers fences begin here, in either direction
  bool from_host = false, to_host = false;  // who keeps the counters of its ends

  bool acks_itself() const { return !consumer.is_valid(); }
  bool operator==(const Channel&) const = default;
};

struct FrameQuota {
  InstanceId instance;
  std::int32_t frame = 0;  // of the block
  std::int32_t num_registers = 1;
  std::int32_t acts_per_content = 1;
  std::int32_t contents_per_step = 1;
  bool initially_full = false;
  std::int32_t first_channel = 0, num_channels = 0;  // of all its writers
  std::int32_t ring = 0;                             // num_registers reference counters
  bool operator==(const FrameQuota&) const = default;
};

struct GuardWait {
  QueueRole queue = QueueRole::kCompute;
  std::int32_t position = 0;
  std::int32_t lag = 0;
  bool operator==(const GuardWait&) const = default;
};

// One entry of the issue order.
struct RunEntry {
  SiteId first_site;  // and those behind it
  std::int32_t num_sites = 0;
  QueueRole queue = QueueRole::kCompute;
  std::int32_t position = 0;                     // among the runs of its queue in one step
  std::int32_t group_size = 1;                   // of the launch group, at its first run; else 0
  std::int32_t unit = 0;                         // among the launches of its queue in one step
  std::int32_t first_guard = 0, num_guards = 0;  // in ProgramTables::guards
  bool communicates = false;

  Range<SiteId> sites() const { return {first_site, first_site.plus(num_sites)}; }
  bool operator==(const RunEntry&) const = default;
};

struct ProgramTables {
  Table<SiteId, Site> sites;
  std::vector<std::int32_t> inputs;  // channels
  std::vector<SiteWrite> writes;
  std::vector<Channel> channels;  // sorted by (frame, producer)
  std::vector<FrameQuota> frames;
  std::vector<RunEntry> runs;  // by RunId
  std::vector<GuardWait> guards;
  std::vector<SiteId> host_sites;
  std::int32_t num_channel_fences = 0;
  std::int32_t num_frame_counters = 0;
  std::int32_t max_group_size = 1;
  FixedTable<QueueRole, std::int32_t, kNumQueueRoles> runs_per_step;
  FixedTable<QueueRole, std::int32_t, kNumQueueRoles> units_per_step;
  // Position of the last run of each launch.
  FixedTable<QueueRole, std::vector<std::int32_t>, kNumQueueRoles> last_of_unit;

  // Throws Error(kBadInput) naming what does not fit together:
  // - a run that is empty, leaves its block, mixes queues, issues a host actor, or issues a
  //   communication together with other actors;
  // - acts of an actor that are not issued 0, 1, 2, ... acts_per_step - 1;
  // - a launch group that is not consecutive, holds anything but communications, or two acts of
  // one;
  // - rates that do not balance: acts_per_step = contents_per_step * consume_for;
  // - num_registers outside 1 .. contents_per_step (state: 1; between host actors there is no upper
  //   bound), slots that do not match;
  // - a register without or with two writers, a read without an edge, an edge that its own site
  //   cannot serve, a port with no link or two;
  // - a guard whose earlier run is not earlier, or that is inside a launch group.
  ProgramTables(const PhysicalGraph& graph, ProgramId program);
  // From tables of the program as it was before it got its guards: nothing else in them is new.
  // Throws the last of these errors alone.
  ProgramTables(const PhysicalGraph& graph, ProgramId program, ProgramTables unguarded);

  std::int64_t sequence_of(std::int32_t run, std::int64_t step) const {
    const RunEntry& entry = at(runs, run);
    return step * runs_per_step[entry.queue] + entry.position;
  }
  bool operator==(const ProgramTables&) const = default;
};

// "layer2.forward[attention.q .. attention.out]": a site or run for people.
std::string actors_to_text(const PhysicalGraph& graph, ProgramId program, InstanceId instance,
                           std::int32_t first_actor, std::int32_t num_actors);
// "run 17: layer2.forward[...] act 3 on compute".
std::string run_to_text(const PhysicalGraph& graph, ProgramId program, RunId run);

}  // namespace sextant
