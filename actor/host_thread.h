// The host actors of one rank on a thread of their own, beside the launch thread. How threads wait
// for each other is a parameter: the system's way, or one in which a test chooses who goes on.
#pragma once

#include "actor/bus/actor_bus.h"
#include "actor/host_caller.h"
#include "actor/hosts/reused_thread.h"
#include "actor/protocol/device.h"
#include "actor/protocol/protocol.h"
#include "core/base/error.h"
#include "core/graphs/host_actors.h"

#include <algorithm>
#include <array>
#include <concepts>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace sextant {

struct SystemThreads {
  using Mutex = std::mutex;
  using Condition = std::condition_variable;
  using Thread = ReusedThread;
};

template <typename Threads>
concept ThreadKit = std::default_initializable<typename Threads::Mutex> &&
    std::constructible_from<typename Threads::Thread, std::function<void()>> &&
    requires(typename Threads::Condition changed, typename Threads::Thread thread,
             std::unique_lock<typename Threads::Mutex> lock) {
  changed.wait(lock, [] { return true; });
  changed.notify_all();
  thread.join();
};

// A host thread and the bus between it and the launch thread. A content moves like this:
//   launch thread: issue -> launch -> Req(fence)   host thread: wait(fence), act -> Ack -> FIFO
// On a device that keeps several steps' contents for the host, actors that only read are off that
// way: the Ack follows the Req at once, and a second thread reads when the fence is done.
//   launch thread: issue -> launch -> Req(fence)   host thread: Ack -> FIFO   reader: wait, act
// Loaders then wait for the end of the step whose buffers they fill again, not for credits' fences.
// Host actors that exchange with host actors alone (Site::is_beside) act on threads of their own,
// beside each other and beside the step, as far as their registers go. Whoever has acted, such a
// thread or the host thread, hands on and lets all begin that now may: none waits for another's
// act, nor for the step that the host thread may be waiting for.
//   thread of an actor: act -> lock: Req and Ack to host actors, begin -> unlock
// More than 200 lines: launch thread, host thread, reader and threads of actors meet under one
// lock, and what one of them does decides which of the others may go on.
template <ThreadKit Threads>
class BasicHostThread {
 public:
  BasicHostThread(const PhysicalGraph& graph, Rank rank, const ProgramTables& tables,
                  Device& device, HostActors& host, std::int64_t first_step)
      : tables_(tables),
        device_(device),
        host_steps_(device.spec().host_steps),
        caller_(graph, rank, tables, device, host, first_step),
        late_caller_(graph, rank, tables, device, host, first_step),
        protocol_(tables, SiteOwner::kHostThread),
        bus_(kThreads, most_messages(tables)),
        launch_end_(bus_.end(kLaunchThread)),
        host_end_(bus_.end(kHostThread)),
        late_reads_done_(tables.sites.size(), 0) {
    for (const SiteId s : tables.host_sites)
      if (site(s).is_beside)
        own_threads_.push_back(std::make_unique<OwnThread>(
            s, HostCaller(graph, rank, tables, device, host, first_step)));
    for (const auto& own : own_threads_)
      own->thread = Thread([this, &own = *own] { own_loop(own); });
    thread_ = Thread([this] { loop(); });
    if (host_steps_ > 1) reader_ = Thread([this] { read_loop(); });
  }

  ~BasicHostThread() {
    {
      const std::lock_guard lock(mutex_);
      ending_ = true;
    }
    changed_.notify_all();
    thread_.join();
    reader_.join();
    for (const auto& own : own_threads_) own->thread.join();
  }
  BasicHostThread(const BasicHostThread&) = delete;
  BasicHostThread& operator=(const BasicHostThread&) = delete;

  // Host actors may act through step `steps` - 1.
  void announce(std::int64_t steps) {
    {
      const std::lock_guard lock(mutex_);
      if (steps <= steps_) return;
      steps_ = steps;
      idle_ = false;
      begin_own_acts();
    }
    changed_.notify_all();
  }

  void post(std::span<const Message> messages) {
    for (const Message& message : messages) put(launch_end_, message);
    // The host thread looks for messages under the lock: it has seen these, or is told now. Whether
    // it is idle follows from its acts alone; it may have done them before this thread is here.
    { const std::lock_guard lock(mutex_); }
    changed_.notify_all();
  }

  // Blocks until there are messages and appends them. Throws what a host actor threw, or the reason
  // of stop().
  void receive(std::vector<Message>& messages) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return launch_end_.has_messages() || is_broken(); });
    throw_if_broken();
    launch_end_.take([&](const ActorMessage& came) { messages.push_back(came.message); });
  }

  // Blocks until every announced act has taken place and all that was posted is taken.
  void wait_until_idle() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] {
      return (idle_ && late_reads_.empty() && !host_end_.has_messages()) || is_broken();
    });
    throw_if_broken();
  }

  // Fences of this step and of later ones are not launched yet: they are not waited for until this
  // is called with a later step. Without a call all are launched when they are posted.
  void hold_reads_from(std::int64_t step) {
    {
      const std::lock_guard lock(mutex_);
      held_from_ = step;
    }
    changed_.notify_all();
  }

  // Blocks until what host actors only read has been read through step `steps` - 1.
  void wait_until_read(std::int64_t steps) {
    if (host_steps_ == 1 || steps <= 0) return;
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return is_read_through(steps) || is_broken(); });
    throw_if_broken();
  }

  // Ends every present and future wait of either thread with Error(kRankFailed).
  void stop(const std::string& reason) {
    {
      const std::lock_guard lock(mutex_);
      if (stop_reason_.empty()) stop_reason_ = reason;
    }
    changed_.notify_all();
  }

  // The launch thread asks for the routes of what it has posted.
  const RouteCounts& routes() const { return launch_end_.counts(); }

 protected:  // a test that plants a mistake here derives from it
  using Mutex = typename Threads::Mutex;
  using Thread = typename Threads::Thread;

  void put(ActorBus::End& from, const Message& message) const {
    const Channel& channel = tables_.channels[static_cast<std::size_t>(message.channel)];
    const ActorId producer = id_of(channel.producer), consumer = id_of(channel.consumer);
    const bool is_req = message.kind == Message::Kind::kReq;
    from.post({is_req ? producer : consumer, is_req ? consumer : producer, message});
  }
  bool is_broken() const { return error_ || !stop_reason_.empty(); }
  void throw_if_broken() const {
    if (error_) std::rethrow_exception(error_);
    if (!stop_reason_.empty()) throw Error(ErrorCode::kRankFailed, stop_reason_);
  }

 private:
  static constexpr ActorThread kLaunchThread{0, 0, false}, kHostThread{0, 0, true};
  static constexpr std::array<ActorThread, 2> kThreads{kLaunchThread, kHostThread};

  // An act whose inputs have been acked and wait to be read.
  struct LateRead {
    SiteId site;
    std::int64_t act = 0;
    std::vector<Fence> waits;
  };

  // A host actor that acts on a thread of its own, one act at a time.
  struct OwnThread {
    OwnThread(SiteId s, HostCaller call) : site(s), caller(std::move(call)) {}
    const SiteId site;
    HostCaller caller;
    bool is_acting = false;
    std::int64_t act = 0;
    Thread thread;
  };

  // A Req and an Ack for each register of each channel are on their way at most.
  static std::size_t most_messages(const ProgramTables& tables) {
    return 2 * static_cast<std::size_t>(tables.num_channel_fences);
  }
  const Site& site(SiteId s) const { return tables_.sites[s]; }
  ActorId id_of(SiteId s) const { return {0, 0, site(s).queue, s.value}; }
  bool is_over() const { return ending_ || is_broken(); }

  void loop();
  void act(SiteId s, std::unique_lock<Mutex>& lock);
  // Under the lock. Whoever waits learns of it.
  void keep_error(std::exception_ptr error) {
    if (!error_) error_ = std::move(error);
    changed_.notify_all();
  }
  // What the act of the site has made, under the lock. Threads here must not throw.
  void hand_on(SiteId s) {
    try {
      protocol_.finish_host_act(s);
      for (const Message& message : protocol_.outbox()) put(host_end_, message);
      protocol_.clear_outbox();
    } catch (...) {
      keep_error(std::current_exception());
    }
  }
  bool reads_launches(SiteId s) const;
  void wait_for_step(std::int64_t step);
  void read_loop();
  void own_loop(OwnThread& own);

  OwnThread* own_thread_of(SiteId s) const {
    for (const auto& own : own_threads_)
      if (own->site == s) return own.get();
    return nullptr;
  }
  bool is_enabled(SiteId s) const {
    const bool announced = protocol_.acts_of(s) < steps_ * site(s).acts_per_step;
    return announced && protocol_.host_act_enabled(s);
  }
  // Under the lock; whoever calls it notifies.
  void begin_own_acts() {
    for (const auto& own : own_threads_) {
      if (own->is_acting || !is_enabled(own->site)) continue;
      own->act = protocol_.acts_of(own->site);
      own_waits_.clear();  // there are none: what they read comes from host actors
      protocol_.begin_host_act(own->site, own_waits_);
      own->is_acting = true;
    }
  }
  // The first host site that may act on this thread; its credits bound how long the others wait.
  std::optional<SiteId> next_enabled() const {
    for (const SiteId s : tables_.host_sites)
      if (own_thread_of(s) == nullptr && is_enabled(s)) return s;
    return std::nullopt;
  }
  bool has_done_all() const {
    return std::all_of(tables_.host_sites.begin(), tables_.host_sites.end(), [&](const SiteId s) {
      return protocol_.acts_of(s) >= steps_ * site(s).acts_per_step;
    });
  }
  bool may_read() const {
    if (late_reads_.empty()) return false;
    const LateRead& read = late_reads_.front();
    return !held_from_ || read.act / site(read.site).acts_per_step < *held_from_;
  }
  bool is_read_through(std::int64_t steps) const {
    return std::all_of(tables_.host_sites.begin(), tables_.host_sites.end(), [&](const SiteId s) {
      return site(s).num_writes > 0 || late_reads_done_[s] >= steps * site(s).acts_per_step;
    });
  }

  const ProgramTables& tables_;
  Device& device_;
  const std::int64_t host_steps_;
  HostCaller caller_;
  HostCaller late_caller_;  // of the second thread
  std::vector<Fence> waits_, own_waits_;

 protected:
  Protocol protocol_;  // of host actors, under mutex_
  ActorBus bus_;       // of this rank alone
  ActorBus::End& launch_end_;
  ActorBus::End& host_end_;
  Mutex mutex_;  // over all below, protocol_ and host_end_
  typename Threads::Condition changed_;
  std::int64_t steps_ = 0;
  bool idle_ = true;
  bool ending_ = false;
  std::string stop_reason_;
  std::exception_ptr error_;
  std::deque<LateRead> late_reads_;  // the first is being read
  Table<SiteId, std::int64_t> late_reads_done_;
  std::optional<std::int64_t> held_from_;  // step

 private:
  std::vector<std::unique_ptr<OwnThread>> own_threads_;  // of actors beside the step
  Thread thread_;
  Thread reader_;  // with host_steps_ > 1
};

using HostThread = BasicHostThread<SystemThreads>;

template <ThreadKit Threads>
void BasicHostThread<Threads>::loop() {
  std::unique_lock lock(mutex_);
  while (!is_over()) {
    host_end_.take([&](const ActorMessage& came) { protocol_.receive(came.message); });
    begin_own_acts();
    const std::optional<SiteId> next = next_enabled();
    if (!next) idle_ = has_done_all();
    changed_.notify_all();
    if (next)
      act(*next, lock);
    else
      changed_.wait(lock, [&] { return is_over() || host_end_.has_messages() || next_enabled(); });
  }
}

// The launches of the step, on every queue, are done.
template <ThreadKit Threads>
void BasicHostThread<Threads>::wait_for_step(std::int64_t step) {
  if (step < 0) return;
  for (const QueueRole queue : tables_.runs_per_step.keys()) {
    const std::int64_t runs = tables_.runs_per_step[queue];
    if (runs > 0) device_.wait({queue, (step + 1) * runs - 1});
  }
}

// Else all that it reads comes from host actors, or it reads nothing.
template <ThreadKit Threads>
bool BasicHostThread<Threads>::reads_launches(SiteId s) const {
  for (std::int32_t i = 0; i < site(s).num_inputs; ++i) {
    const auto input = static_cast<std::size_t>(site(s).first_input + i);
    if (!tables_.channels[static_cast<std::size_t>(tables_.inputs[input])].from_host) return true;
  }
  return false;
}

// Unlocks while it waits and acts.
template <ThreadKit Threads>
void BasicHostThread<Threads>::act(SiteId s, std::unique_lock<Mutex>& lock) {
  waits_.clear();
  const std::int64_t act = protocol_.acts_of(s);
  protocol_.begin_host_act(s, waits_);
  if (host_steps_ > 1 && site(s).num_writes == 0) {
    hand_on(s);
    late_reads_.push_back({s, act, waits_});
    return;
  }
  lock.unlock();
  std::exception_ptr error;
  try {
    // A credit's fence may be of a launch that is not made yet, and of bytes in the arena.
    if (host_steps_ > 1 && !reads_launches(s))
      wait_for_step(act / site(s).acts_per_step - host_steps_);
    else
      for (const Fence fence : waits_) device_.wait(fence);
    caller_.call(s, act);
  } catch (...) {
    error = std::current_exception();
  }
  lock.lock();
  if (error) return keep_error(error);
  hand_on(s);
}

template <ThreadKit Threads>
void BasicHostThread<Threads>::own_loop(OwnThread& own) {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return is_over() || own.is_acting; });
    if (is_over()) return;
    lock.unlock();
    std::exception_ptr error;
    try {
      own.caller.call(own.site, own.act);
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    if (error) return keep_error(error);
    own.is_acting = false;
    hand_on(own.site);
    if (is_over()) return;
    begin_own_acts();
    idle_ = has_done_all();  // its act may have been the last
    changed_.notify_all();
  }
}

template <ThreadKit Threads>
void BasicHostThread<Threads>::read_loop() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return is_over() || may_read(); });
    if (is_over()) return;
    const LateRead read = late_reads_.front();
    lock.unlock();
    std::exception_ptr error;
    try {
      for (const Fence fence : read.waits) device_.wait(fence);
      late_caller_.call(read.site, read.act);
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    if (error) keep_error(error);
    late_reads_.pop_front();
    ++late_reads_done_[read.site];
    changed_.notify_all();
  }
}

}  // namespace sextant
