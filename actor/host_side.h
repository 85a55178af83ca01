// The host actors of one rank: on a thread of their own, or inline on a device without memory,
// where nothing is filled or read.
#pragma once

#include "actor/device.h"
#include "actor/operands.h"
#include "actor/protocol.h"
#include "core/host_actors.h"

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace sextant {

// What the acts of host actors need beside counters: buffers and the call itself.
class HostCaller {
 public:
  HostCaller(const PhysicalGraph& graph, Rank rank, const ProgramTables& tables, Device& device,
             HostActors& host);
  // Throws what the actor throws.
  void call(std::int32_t site, std::int64_t act);

 private:
  const PhysicalGraph* graph_;
  Rank rank_;
  const ProgramTables* tables_;
  Device* device_;
  HostActors* host_;
  std::vector<std::vector<ActorCall>> calls_;  // by site (empty for others), by act of the step
  std::vector<std::span<const std::byte>> inputs_;
  std::vector<std::span<std::byte>> outputs_;
};

// A host thread and the two FIFOs between it and the launch thread. A content moves like this:
//   launch thread: issue -> launch -> Req(fence)   host thread: wait(fence), act -> Ack -> FIFO
class HostThread {
 public:
  HostThread(const PhysicalGraph& graph, Rank rank, const ProgramTables& tables, Device& device,
             HostActors& host);
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
  // Ends every present and future wait of either thread with Error(kRankFailed).
  void stop(const std::string& reason);

 private:
  void loop();
  std::int32_t next_enabled() const;
  bool is_idle() const;
  void act(std::int32_t site);
  void throw_if_broken();

  const ProgramTables& tables_;
  Device& device_;
  HostCaller caller_;
  // Of the host thread.
  Protocol protocol_;
  std::vector<Fence> waits_;
  std::vector<Message> received_;

  std::mutex mutex_;  // over all below
  std::condition_variable changed_;
  std::vector<Message> to_host_, to_launch_;
  std::int64_t steps_ = 0;
  bool idle_ = true;
  bool ending_ = false;
  std::string stop_reason_;
  std::exception_ptr error_;

  std::thread thread_;
};

}  // namespace sextant
