// Actors at work: one RankRuntime per rank turns the issue order into launches with fences, on any
// Device. Counters, credits, Req and Ack are in protocol.h.
#pragma once

#include "actor/device.h"
#include "core/host_actors.h"
#include "core/physical_graph.h"

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace sextant {

// Hashes of what was issued: equal on every device (invariant 5).
struct IssueHash {
  std::vector<std::uint64_t> per_queue;  // kNumQueueRoles entries
  std::uint64_t edges = 0;               // Req and Ack sequence, per edge direction, folded
  bool operator==(const IssueHash&) const = default;
};

struct RuntimeOptions {
  std::int64_t window = 256;  // unfinished launches per queue
  std::int64_t run_ahead_steps = 2;
};

class RankRuntime {
 public:
  RankRuntime(const PhysicalGraph& graph, Rank rank, Device& device, HostActors& host,
              const RuntimeOptions& options = {});
  ~RankRuntime();

  // Issues the next run (or launch group) of the order; waits for host actors and the window if it
  // must. Returns what was issued.
  std::int32_t issue_next();
  std::int64_t step() const;     // of the next issue
  void run(std::int64_t steps);  // issues whole steps on the calling thread
  void drain();                  // Stop: waits until every register has returned
  IssueHash hash() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Runs `steps` steps on all ranks, one launch thread per device. An error on one rank stops all
// and is rethrown naming rank, actor and act.
std::vector<IssueHash> run_all(const PhysicalGraph& graph, std::span<Device* const> devices,
                               HostActors& host, std::int64_t steps,
                               const RuntimeOptions& options = {});

}  // namespace sextant
