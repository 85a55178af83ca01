// Messages between actors by three routes, chosen from the receiver's id. Nobody waits here:
// whoever has nothing to do takes what has come, or sleeps in a way of its own.
#pragma once

#include "actor/bus/actor_id.h"
#include "actor/bus/routes.h"
#include "actor/bus/thread_fifo.h"
#include "actor/hosts/host_group.h"
#include "actor/protocol/protocol.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace sextant {

struct ActorMessage {
  ActorId from, to;
  Message message;
};

// The bus of one process: its threads, all known from the start, and the group that it is a member
// of.
class ActorBus {
 public:
  class End;

  // `capacity`: messages on their way from one thread to another, at most. `group`, whose members
  // are the nodes, outlives the bus; without one there is one process. Throws Error(kUsage) for
  // threads of different nodes, or one named twice.
  ActorBus(std::span<const ActorThread> threads, std::size_t capacity, HostGroup* group = nullptr);
  ~ActorBus();
  ActorBus(const ActorBus&) = delete;
  ActorBus& operator=(const ActorBus&) = delete;

  // Throws Error(kUsage) for a thread that is not of this bus.
  End& end(const ActorThread& thread);

 private:
  std::vector<std::unique_ptr<End>> ends_;
};

class ActorBus::End {
 public:
  // What one thread, the caller, tells an actor. Throws Error(kUsage) for a thread or a process
  // that there is not, Error(kInternal) where more is on its way than the bus has room for, and
  // Error(kRankFailed) where the group is aborted.
  void post(const ActorMessage& message) {
    if (!try_post(message)) fail_full(message);
  }
  // Posts as post() does, and returns false where there is no room yet.
  bool try_post(const ActorMessage& message);

  // handle(const ActorMessage&) for each message that has come, those of one sender in the order in
  // which they were posted; what `handle` posts to its own thread is handled too. How many.
  template <typename Handle>
  std::size_t take(Handle&& handle) {
    std::size_t taken = 0;
    const auto count = [&](const ActorMessage& message) {
      ++taken;
      handle(message);
    };
    for (const auto& fifo : incoming_) fifo->take(count);
    while (const std::optional<ActorMessage> message = take_from_group()) count(*message);
    while (own_begin_ < own_.size()) {
      const ActorMessage message = own_[own_begin_++];  // `handle` may post, which moves the list
      count(message);
    }
    own_.clear();
    own_begin_ = 0;
    return taken;
  }
  // Whether `take` would find something, other processes left out.
  bool has_messages() const;

  const ActorThread& thread() const { return thread_; }
  const RouteCounts& counts() const { return counts_; }

 private:
  friend class ActorBus;
  End(const ActorThread& thread, HostGroup* group) : thread_(thread), group_(group) {}
  std::optional<ActorMessage> take_from_group();
  void send_to_process(const ActorMessage& message);
  [[noreturn]] void fail_full(const ActorMessage& message) const;
  ThreadFifo<ActorMessage>& fifo_to(const ActorThread& thread);

  const ActorThread thread_;
  HostGroup* const group_;
  std::vector<ActorMessage> own_;  // to this thread itself
  std::size_t own_begin_ = 0;
  std::vector<std::unique_ptr<ThreadFifo<ActorMessage>>> incoming_;
  std::vector<std::pair<ActorThread, ThreadFifo<ActorMessage>*>> outgoing_;
  RouteCounts counts_;
};

}  // namespace sextant
