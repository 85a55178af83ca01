// The host actors of one rank: on a thread of their own, or inline on a device without memory,
// where nothing is filled or read.
#pragma once

#include "actor/bus/actor_bus.h"
#include "actor/calls/named_actors.h"
#include "actor/calls/operands.h"
#include "actor/hosts/reused_thread.h"
#include "actor/protocol/device.h"
#include "actor/protocol/protocol.h"
#include "core/graphs/host_actors.h"

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace sextant {

// What the acts of host actors need beside counters: buffers and the call itself.
class HostCaller {
 public:
  // `first_step`: what actors call step 0.
  HostCaller(const PhysicalGraph& graph, Rank rank, const ProgramTables& tables, Device& device,
             HostActors& host, std::int64_t first_step);
  // Throws what the actor throws.
  void call(std::int32_t site, std::int64_t act);

 private:
  const PhysicalGraph* graph_;
  Rank rank_;
  const ProgramTables* tables_;
  Device* device_;
  HostActors* host_;
  std::int64_t first_step_;
  NamedActors actors_;
  std::vector<std::vector<ActorCall>> calls_;  // by site (empty for others), by act of the step
  std::vector<std::span<const std::byte>> inputs_;
  std::vector<std::span<std::byte>> outputs_;
};

// A host thread and the bus between it and the launch thread. A content moves like this:
//   launch thread: issue -> launch -> Req(fence)   host thread: wait(fence), act -> Ack -> FIFO
// On a device that keeps several steps' contents for the host, actors that only read are off that
// way: the Ack follows the Req at once, and a second thread reads when the fence is done.
//   launch thread: issue -> launch -> Req(fence)   host thread: Ack -> FIFO   reader: wait, act
// Loaders then wait for the end of the step whose buffers they fill again, not for credits' fences.
// Host actors that exchange with host actors alone (Site::is_beside) act on threads of their own,
// beside each other and beside the step, as far as their registers go:
//   thread of an actor: act   host thread: begin -> (act) -> finish: Req and Ack to host actors
class HostThread {
 public:
  HostThread(const PhysicalGraph& graph, Rank rank, const ProgramTables& tables, Device& device,
             HostActors& host, std::int64_t first_step);
  ~HostThread();
  HostThread(const HostThread&) = delete;
  HostThread& operator=(const HostThread&) = delete;

  // Host actors may act through step `steps` - 1.
  void announce(std::int64_t steps);
  void post(std::span<const Message> messages);
  // Blocks until there are messages and appends them. Throws what a host actor threw, or the reason
  // of stop().
  void receive(std::vector<Message>& messages);
  // Blocks until every announced act has taken place.
  void wait_until_idle();
  // Fences of this step and of later ones are not launched yet: they are not waited for until this
  // is called with a later step. Without a call all are launched when they are posted.
  void hold_reads_from(std::int64_t step);
  // Blocks until what host actors only read has been read through step `steps` - 1.
  void wait_until_read(std::int64_t steps);
  // Ends every present and future wait of either thread with Error(kRankFailed).
  void stop(const std::string& reason);
  // The launch thread asks for the routes of what it has posted.
  const RouteCounts& routes() const { return launch_end_.counts(); }

 private:
  // An act whose inputs have been acked and wait to be read.
  struct LateRead {
    std::int32_t site = 0;
    std::int64_t act = 0;
    std::vector<Fence> waits;
  };

  // A host actor that acts on a thread of its own, one act at a time.
  struct OwnThread {
    std::int32_t site = 0;
    HostCaller caller;
    enum class State : std::uint8_t { kIdle, kActing, kDone } state = State::kIdle;
    std::int64_t act = 0;
    ReusedThread thread;
  };

  void loop();
  void read_loop();
  void own_loop(OwnThread& own);
  OwnThread* own_thread_of(std::int32_t site) const;
  void finish_own_acts();
  std::int32_t next_enabled() const;
  bool is_idle() const;
  bool is_over() const { return ending_ || error_ || !stop_reason_.empty(); }
  void act(std::int32_t site);
  void put(ActorBus::End& from, const Message& message) const;
  void wait_for_step(std::int64_t step);
  bool may_read() const;
  bool is_read_through(std::int64_t steps) const;
  void throw_if_broken();

  const ProgramTables& tables_;
  Device& device_;
  const std::int64_t host_steps_;
  HostCaller caller_;
  HostCaller late_caller_;  // of the second thread
  // Of the host thread.
  Protocol protocol_;
  std::vector<Fence> waits_;

  ActorBus bus_;  // of this rank alone
  ActorBus::End& launch_end_;
  ActorBus::End& host_end_;
  std::mutex mutex_;  // over all below
  std::condition_variable changed_;
  std::int64_t steps_ = 0;
  bool idle_ = true;
  bool ending_ = false;
  std::string stop_reason_;
  std::exception_ptr error_;
  std::deque<LateRead> late_reads_;            // the first is being read
  std::vector<std::int64_t> late_reads_done_;  // by site
  std::optional<std::int64_t> held_from_;      // step

  std::vector<std::unique_ptr<OwnThread>> own_threads_;  // of actors beside the step
  ReusedThread thread_;
  ReusedThread reader_;  // with host_steps_ > 1
};

}  // namespace sextant
