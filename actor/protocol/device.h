// What executes runs and reports their completion: CPU, CUDA or virtual time. The only place where
// time passes (see README, invariants 3 and 9).
#pragma once

#include "core/base/ids.h"
#include "core/base/units.h"
#include "core/graphs/physical_graph.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace sextant {

// Completion of one launch: the `sequence`-th launch (from 0, over all steps) on a queue of the
// device that returned it. What stands behind it is the device's: an event, a counter, a time.
struct Fence {
  QueueRole queue = QueueRole::kCompute;
  std::int64_t sequence = -1;
  bool operator==(const Fence&) const = default;
};

enum class FenceState : std::uint8_t { kPending, kDone, kFailed };

// One run to be enqueued. Buffers follow from (run, rank): addresses repeat each step.
struct Launch {
  RunId run;  // in the rank's issue order
  std::int64_t step = 0;
  std::span<const Fence> waits;  // at most one per queue, never of the run's own queue
};

struct DeviceSpec {
  std::string name;
  std::vector<QueueRole> queues;
  std::vector<DType> dtypes;
  bool capture = false;     // gives replays
  bool has_memory = false;  // registers have bytes (false for the simulator)
  // Steps whose contents of registers that host actors touch exist side by side. With 2, a loader
  // fills the next step's while this one's are read, and what metrics read stays for a step: the
  // launch thread need not wait until the host has looked. Such contents are apart from the arena:
  // nobody but the device's copies touches what a host actor wrote.
  std::int32_t host_steps = 1;
};

// When a run, or one kernel of it, occupied its queue, for traces.
struct Stamp {
  RunId run;
  std::int64_t step = 0;
  Duration begin, end;  // since the device's own epoch
  // The actors of the run that the time is of; 0 actors: all of them.
  std::int32_t first_actor = 0, num_actors = 0;
};

struct Tape;

// A whole step that the device issues by itself.
class Replay {
 public:
  virtual ~Replay() = default;
  // Enqueues the step behind everything launched so far; its launches have the fences that they
  // would have had one by one. Does not wait for device work.
  virtual void launch(std::int64_t step) = 0;
};

// A state register of a device's rank, and the bytes of the part that the rank holds.
struct StateToCopy {
  InstanceId instance;
  std::int32_t reg = 0;
  Bytes size;
};

// Copies of some states of one device, on the host. A device that works by itself brings them while
// the steps that follow are under way.
class StateCopies {
 public:
  virtual ~StateCopies() = default;
  // The states as they are: nothing is under way, and what the last `begin` brought is used. What
  // is launched from here on changes none of them before it is copied. By the launch thread.
  virtual void begin() = 0;
  // Blocks until what has begun has come. Any thread, even when the device is gone.
  virtual void wait() = 0;
  // The values of one state, by its number, row-major, always in the same place: the bytes are the
  // state's from `wait` until the next `begin`.
  virtual std::span<const std::byte> bytes(std::size_t state) const = 0;
};

class Device {
 public:
  virtual ~Device() = default;
  virtual const DeviceSpec& spec() const = 0;
  // The only call that allocates: arena, kernels, communicators. State registers get their first
  // contents here. `graph` outlives the device's use.
  virtual void prepare(const PhysicalGraph& graph, Rank rank) = 0;
  // Enqueues the runs of one launch group (usually one); writes one fence per run; does not wait
  // for device work. Runs of a group start when all their queues and waits are free.
  virtual void launch(std::span<const Launch> group, std::span<Fence> done) = 0;
  virtual FenceState state(Fence fence) = 0;
  // Blocks until the fence is done. Throws Error(kRankFailed) naming the operator if it failed.
  virtual void wait(Fence fence) = 0;
  // The recorded step of the rank's program as one launch (actor/tapes/tape.h). Nothing: the
  // runtime launches run by run, as before. Called at most once, between two steps, when all of
  // what a step launches has been launched before; a replay lives no longer than the device.
  virtual std::unique_ptr<Replay> capture(const Tape& tape) {
    static_cast<void>(tape);
    return nullptr;
  }
  // Bytes of a register's content that host actors fill or read; empty without memory.
  virtual std::span<std::byte> host_view(InstanceId instance, std::int32_t reg,
                                         std::int32_t content) = 0;
  // Those bytes of one step, on a device that keeps several (DeviceSpec::host_steps).
  virtual std::span<std::byte> host_view_of_step(InstanceId instance, std::int32_t reg,
                                                 std::int32_t content, std::int64_t step) {
    static_cast<void>(step);
    return host_view(instance, reg, content);
  }
  // The bytes of a state register, row-major, when nothing is under way: copied out, copied in.
  // Throws Error(kDevice) on a device that cannot, or has no memory.
  virtual void read_state(InstanceId instance, std::int32_t reg, std::span<std::byte> to);
  virtual void write_state(InstanceId instance, std::int32_t reg, std::span<const std::byte> from);
  // Takes all the memory that copies of these states need. Called once at most, prepared, before
  // the first launch. Without more, `begin` itself reads the states.
  virtual std::shared_ptr<StateCopies> make_state_copies(std::vector<StateToCopy> states);
  // Another rank failed: whoever is or will be blocked in wait() or in a rendezvous of this device
  // gets Error(kRankFailed) with this reason. Called from any thread, once at most.
  virtual void abort(const std::string& reason) { static_cast<void>(reason); }
  // Device time per run since profiling was turned on; empty unless profiling.
  virtual std::span<const Stamp> stamps() = 0;
};

}  // namespace sextant
