// Actors at work: one RankRuntime per rank turns the issue order into launches with fences, on any
// Device. Counters, credits, Req and Ack are in protocol/protocol.h.
#pragma once

#include "actor/bus/routes.h"
#include "actor/protocol/device.h"
#include "actor/protocol/program_tables.h"
#include "actor/protocol/run_ahead.h"
#include "core/graphs/host_actors.h"
#include "core/graphs/physical_graph.h"

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace sextant {

class Protocol;

// Hashes of what was issued: equal on every device (invariant 5).
struct IssueHash {
  std::vector<std::uint64_t> per_queue;  // kNumQueueRoles entries
  // Req and Ack of every channel with their fences, folded; what host actors post is left out.
  std::uint64_t edges = 0;
  bool operator==(const IssueHash&) const = default;
};

struct RuntimeOptions {
  std::int64_t window = kRunAheadLaunches;  // unfinished launches per queue
  std::int64_t run_ahead_steps = kRunAheadSteps;
  // From the third step on whole steps are launched at once, on devices that can (Device::capture).
  bool replay = true;
  // What devices and host actors call the first step: not 0 where training goes on. Steps of the
  // runtime itself, and with them fences and hashes, count from 0 all the same.
  std::int64_t first_step = 0;
  // Whether hash() says what was issued; nobody compares that of a check.
  bool keeps_hash = true;
};

// Where ranks stop between two steps, each for itself. Steps are counted with
// RuntimeOptions::first_step.
class StepBoundaries {
 public:
  virtual ~StepBoundaries() = default;
  // The first count of steps above `steps` at which ranks stop.
  virtual std::int64_t next(std::int64_t steps) const = 0;
  // So many steps are trained, and all that the rank launched is done: its registers hold its
  // state. Called on the rank's own thread; the rank goes on when it returns.
  virtual void at(Rank rank, Device& device, std::int64_t steps) = 0;
};

// Host actors that do nothing: for devices without memory.
class IdleHostActors : public HostActors {
 public:
  void act(const HostAct&) override {}
};

// `graph`, `device` and `host` outlive it; `device` has been prepared for `rank`. On a device with
// memory host actors run on a thread of their own; on one without they act inline and take no time.
class RankRuntime {
 public:
  RankRuntime(const PhysicalGraph& graph, Rank rank, Device& device, HostActors& host,
              const RuntimeOptions& options = {});
  // `tables` of the rank's program, shared by the ranks of a class.
  RankRuntime(const PhysicalGraph& graph, Rank rank, std::shared_ptr<const ProgramTables> tables,
              Device& device, HostActors& host, const RuntimeOptions& options = {});
  ~RankRuntime();
  RankRuntime(RankRuntime&&) noexcept;

  // Issues the next run (or launch group, or the step that is replayed) of the order; waits for
  // host actors and the window if it must. Returns the number of runs issued.
  std::int32_t issue_next();
  std::int64_t step() const;     // of the next issue
  RunId next_run() const;        // likewise
  void run(std::int64_t steps);  // issues whole steps on the calling thread
  // Stop: waits until every launch is done and, at the end of a step, every register has returned.
  void drain();
  // From any thread: ends waits for host actors, now and later, with Error(kRankFailed). Waits
  // inside the device are ended by Device::abort.
  void stop(const std::string& reason);
  IssueHash hash() const;
  // Messages that the launch thread's actors have posted. Those of communications are the device's.
  RouteCounts routes() const;
  const Protocol& protocol() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Prepares devices[i] for rank i, one thread per device: communicators meet there. An error on one
// rank aborts the others and is rethrown.
void prepare_all(const PhysicalGraph& graph, std::span<Device* const> devices);

// Runs `steps` steps on all ranks, one launch thread per prepared device, and drains. An error on
// one rank stops all and is rethrown naming rank, actor and act. Ranks of other processes have no
// device here (nullptr), and their hashes are empty. Every rank stops at all `boundaries` and, if
// there are any, behind the last step.
std::vector<IssueHash> run_all(const PhysicalGraph& graph, std::span<Device* const> devices,
                               HostActors& host, std::int64_t steps,
                               const RuntimeOptions& options = {},
                               StepBoundaries* boundaries = nullptr);

}  // namespace sextant
