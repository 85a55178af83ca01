// One thread at a time calls MPI: it sends what is queued and puts what comes into the mailbox. As
// a rule that is a thread of its own, the bus, which also says every now and then that this process
// lives, and looks whether the others do. Whoever sends, or waits for a message, does the bus's
// work meanwhile if nobody else is at it: that spares two wake-ups a message. Nobody ever blocks
// inside the library, so a peer that is lost costs a timeout and no hang.
#include "backends/hosts/peer_watch.h"
#include "backends/hosts/poll_patience.h"
#include "backends/hosts/process_group.h"
#include "backends/hosts/wire_message.h"
#include "core/base/check.h"

#ifdef SEXTANT_HAS_MPI

#include <mpi.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <future>
#include <iterator>
#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <utility>

namespace sextant {

bool has_mpi() { return true; }

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::microseconds;
using std::chrono::milliseconds;

// Polls of an idle bus before it sleeps, and how long it sleeps: a sleeping bus is woken by what is
// to be sent, not by what comes. It never yields: on a busy processor that costs a time slice.
// Where nobody sleeps until a message comes, or somebody looks for his, it sleeps long.
constexpr int kBusyPolls = 30;
constexpr microseconds kShortSleep{40};
constexpr microseconds kSleep{90};
constexpr microseconds kLongSleep{500};
constexpr microseconds kShortIdle{500};
constexpr milliseconds kLongIdle{200};
constexpr milliseconds kLook{50};
constexpr milliseconds kCount{3};  // of threads that want to run
constexpr milliseconds kLongestBeat{500};
constexpr milliseconds kTimeToEnd{500};  // for MPI, after the goodbyes

void check_mpi(int result, const char* call) {
  if (result == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  MPI_Error_string(result, text, &length);
  fail(ErrorCode::kRankFailed, "{}: {}", call, text);
}

// One more while it lives.
class Counted {
 public:
  explicit Counted(std::atomic<int>& count) : count_(count) { ++count_; }
  ~Counted() { --count_; }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;

 private:
  std::atomic<int>& count_;
};

// More than 200 lines: those who send, those who wait, the bus and whoever drives MPI share its
// queues, each part under the lock that it stands below.
// The bus holds the group as well: one that is left inside of MPI finds it there when it comes out.
class MpiProcesses final : public ProcessGroup,
                           public HostGroup,
                           public std::enable_shared_from_this<MpiProcesses> {
 public:
  MpiProcesses(const Launched& launched, const ProcessOptions& options)
      : launched_(launched), options_(options) {}

  // Once, before all else. However it ends, the bus has an end or an owner of its own.
  void begin() {
    bus_ = std::thread([self = shared_from_this()] { self->run_bus(); });
    std::future<void> joined = joined_.get_future();
    if (joined.wait_for(options_.timeout) != std::future_status::ready) {
      bus_.detach();
      fail(ErrorCode::kRankFailed,
           "process {} of {}: not all processes that {} started have joined within {} ms",
           launched_.process, launched_.processes, launched_.launcher, options_.timeout.count());
    }
    try {
      joined.get();
    } catch (...) {
      bus_.join();
      throw;
    }
    try {
      meet();
    } catch (...) {
      leave(kTimeToEnd);
      throw;
    }
  }

  void end() {
    if (bus_.joinable()) leave(kTimeToEnd);
  }

  // HostGroup
  Rank rank() const override { return Rank(launched_.process); }
  std::size_t size() const override { return launched_.processes; }
  std::string name_of(Rank member) const override {
    const std::lock_guard lock(watch_mutex_);
    return name_locked(member.index());
  }
  void abort(const std::string& reason) override {
    if (!abort_here(reason, has_said_goodbye_)) return;
    for (std::size_t peer = 0; peer < size(); ++peer)
      if (peer != rank().index())
        queue(peer, {.kind = WireKind::kAbort}, host_bytes(abort_reason()));
  }
  std::vector<HostBytes> all_gather(std::span<const std::byte> own) override {
    return gather_by_messages(*this, own, gathers_++);
  }
  void send(Rank to, HostTag tag, HostBytes bytes) override {
    mailbox_.require_open();
    if (to == rank()) return mailbox_.put(tag, {to, std::move(bytes)});
    sent_bytes_ += static_cast<std::int64_t>(bytes.size());
    append(to.index(), {.key = tag.key, .subject = tag.subject}, bytes);
    if (!drive()) queued_.notify_one();
  }
  HostBytes receive(Rank from, HostTag tag) override { return take(tag, from).bytes; }
  HostMessage receive_any(HostTag tag) override { return take(tag, std::nullopt); }
  std::optional<HostMessage> try_receive_any(HostTag tag) override {
    drive();
    return mailbox_.try_take(tag, std::nullopt);
  }

  // ProcessGroup
  HostGroup& group() override { return *this; }
  void name_work(std::vector<std::string> work) override {
    const std::lock_guard lock(watch_mutex_);
    work_ = std::move(work);
  }
  const std::vector<std::size_t>& machines() const override { return machines_; }
  std::int64_t sent_bytes() const override { return sent_bytes_.load(); }
  std::string fault() const override { return abort_reason(); }
  bool was_left() const override {
    const std::lock_guard lock(watch_mutex_);
    return was_left_;
  }
  std::string lost() override {
    while (true) {
      look(Clock::now());
      {
        const std::lock_guard lock(watch_mutex_);
        if (!lost_reason_.empty() || !watch_->is_any_missing()) return lost_reason_;
      }
      std::this_thread::sleep_for(milliseconds(5));
    }
  }
  bool speaks() const override {
    const std::lock_guard lock(watch_mutex_);
    const auto now = Clock::now();
    for (std::size_t peer = 0; peer < rank().index(); ++peer)
      if (!watch_->is_lost_or_quiet(peer, now)) return false;
    return true;
  }
  void say_goodbye() override {
    has_said_goodbye_ = true;
    for (std::size_t peer = 0; peer < size(); ++peer)
      if (peer != rank().index()) queue(peer, {.kind = WireKind::kGoodbye}, {});
  }
  bool flush(milliseconds patience) override {
    for (const auto end = Clock::now() + patience; num_unsent_ > 0;) {
      if (Clock::now() >= end) return false;
      std::this_thread::sleep_for(milliseconds(1));
    }
    return true;
  }
  bool leave(milliseconds patience) override;

 private:
  struct Outgoing {
    std::size_t to = 0;
    HostBytes bytes;
    MPI_Request request = MPI_REQUEST_NULL;
  };
  struct Incoming {
    HostBytes bytes;
    MPI_Request request = MPI_REQUEST_NULL;
  };

  // Where a process runs is the first that all tell each other.
  void meet();
  void queue(std::size_t to, const WireTrailer& trailer, const HostBytes& bytes) {
    append(to, trailer, bytes);
    queued_.notify_one();
  }
  void append(std::size_t to, const WireTrailer& trailer, const HostBytes& bytes);
  HostMessage take(HostTag tag, std::optional<Rank> from);
  // Looks for a message as long as `patience_` has it, doing the bus's work.
  std::optional<HostMessage> look_for(HostTag tag, std::optional<Rank> from);
  void wake_bus();
  // The work of the bus once, unless somebody is at it; false: somebody is, or nobody may.
  bool drive();
  // Whether it is the first. `was_left`: by a process that had said goodbye.
  bool abort_here(const std::string& reason, bool was_left);
  std::string abort_reason() const {
    const std::lock_guard lock(watch_mutex_);
    return abort_reason_;
  }
  std::string name_locked(std::size_t member) const;
  bool is_any_lost() const {
    const std::lock_guard lock(watch_mutex_);
    for (std::size_t peer = 0; peer < size(); ++peer)
      if (watch_->is_lost(peer)) return true;
    return false;
  }
  bool has_left(std::size_t peer) const {
    const std::lock_guard lock(watch_mutex_);
    return watch_->state(peer) == PeerState::kLeft;
  }
  void look(Clock::time_point now);

  // Of the bus.
  void run_bus();
  void join();
  void poll();
  // Of whoever holds `mpi_mutex_`.
  bool move_messages();
  // A message that cannot be sent says that its receiver is lost, not that this process has failed.
  bool is_sent(int result, std::size_t to);
  bool send_queued();
  bool finish_sends();
  bool accept();
  bool take_arrived();
  void heard(std::size_t from, HostBytes part);
  void arrived(std::size_t from, WireMessage message);
  void beat(Clock::time_point now);
  void look_at_machine(Clock::time_point now);
  // `is_moving`: messages that MPI has not moved whole.
  void rest(int idle_polls, Clock::time_point active, bool is_moving);

  const Launched launched_;
  const ProcessOptions options_;
  HostMailbox mailbox_;
  std::uint64_t gathers_ = 0;
  std::vector<std::size_t> machines_;
  std::atomic<std::int64_t> sent_bytes_{0};
  std::atomic<bool> is_aborted_{false}, has_said_goodbye_{false};
  std::atomic<std::size_t> num_unsent_{0};  // messages that MPI has not taken over whole
  PollPatience patience_;
  std::atomic<int> looking_{0}, waiting_{0};  // threads that look for messages, and that sleep
  std::atomic<std::int64_t> driven_{0};       // times that another thread did the bus's work
  std::promise<void> joined_;
  std::promise<void> ended_;
  std::future<void> has_ended_ = ended_.get_future();

  std::mutex queue_mutex_;
  std::condition_variable queued_;
  std::vector<Outgoing> queue_;
  std::atomic<bool> has_queued_{false};          // there may be some
  bool rests_long_ = false, is_wanted_ = false;  // of the bus
  bool is_leaving_ = false;                      // the bus ends when all is sent
  bool may_finalize_ = false;

  mutable std::mutex watch_mutex_;
  std::optional<PeerWatch> watch_;
  std::vector<std::string> work_;
  std::string abort_reason_, lost_reason_;
  bool was_left_ = false;

  // Whoever holds it calls MPI and has what stands below. Never taken while another one is held.
  std::mutex mpi_mutex_;
  bool may_drive_ = false;  // MPI can be called, by any thread
  std::list<Outgoing> sending_;
  std::vector<std::list<Incoming>> receiving_;  // by sender
  std::vector<WireReader> readers_;             // likewise
  std::vector<std::uint64_t> numbers_;          // of the next message, by receiver

  // Of the bus alone.
  Clock::time_point next_beat_, next_look_, next_count_;
  RunnableThreads runnable_;

  std::thread bus_;
};

void MpiProcesses::meet() {
  const std::string own = to_text(own_identity());
  std::vector<PeerIdentity> peers;
  for (const HostBytes& identity : all_gather(host_bytes(own)))
    peers.push_back(peer_identity_from(host_text(identity)));
  for (const PeerIdentity& peer : peers) {
    const auto same = std::find_if(peers.begin(), peers.end(), [&](const PeerIdentity& other) {
      return other.host == peer.host && other.machine == peer.machine;
    });
    machines_.push_back(static_cast<std::size_t>(same - peers.begin()));
  }
  const std::lock_guard lock(watch_mutex_);
  watch_->identify(std::move(peers));
}

std::string MpiProcesses::name_locked(std::size_t member) const {
  const std::string work = member < work_.size() ? work_[member] + ", " : "";
  const PeerIdentity& identity = watch_->identity(member);
  if (identity.pid == 0) return fmt::format("process {} of {}", member, size());
  return fmt::format("process {} of {} ({}host {}, pid {})", member, size(), work, identity.host,
                     identity.pid);
}

bool MpiProcesses::abort_here(const std::string& reason, bool was_left) {
  {
    const std::lock_guard lock(watch_mutex_);
    if (!abort_reason_.empty()) return false;
    was_left_ = was_left;
    abort_reason_ = reason.empty() ? "no reason given" : reason;
  }
  is_aborted_ = true;
  mailbox_.close(abort_reason());
  return true;
}

void MpiProcesses::look(Clock::time_point now) {
  std::string reason;
  {
    const std::lock_guard lock(watch_mutex_);
    const std::optional<std::size_t> lost = watch_->look(now);
    if (!lost) return;
    reason =
        watch_->state(*lost) == PeerState::kGone
            ? fmt::format("{} is gone: it was killed, or ended without a word", name_locked(*lost))
            : fmt::format("{} has said nothing for {} ms: it is stopped, or cannot be reached",
                          name_locked(*lost), options_.timeout.count());
    if (lost_reason_.empty()) lost_reason_ = reason;
  }
  abort(reason);
}

void MpiProcesses::append(std::size_t to, const WireTrailer& trailer, const HostBytes& bytes) {
  std::vector<HostBytes> parts = wire_parts(trailer, bytes);
  const std::lock_guard lock(queue_mutex_);
  num_unsent_ += parts.size();
  for (HostBytes& part : parts) queue_.push_back({to, std::move(part)});
  has_queued_.store(true, std::memory_order_release);
}

// The bus need not hurry while somebody looks, who does its work: whoever stops looking wakes it
// where others sleep.
HostMessage MpiProcesses::take(HostTag tag, std::optional<Rank> from) {
  if (std::optional<HostMessage> message = look_for(tag, from)) {
    if (waiting_ > 0) wake_bus();
    return std::move(*message);
  }
  const Counted waits(waiting_);
  wake_bus();
  return mailbox_.take_from(tag, from);
}

std::optional<HostMessage> MpiProcesses::look_for(HostTag tag, std::optional<Rank> from) {
  const Counted looks(looking_);
  if (std::optional<HostMessage> message = mailbox_.try_take(tag, from)) return message;
  for (const auto begin = Clock::now(); patience_.looks_again(begin, Clock::now());) {
    drive();
    if (std::optional<HostMessage> message = mailbox_.try_take(tag, from)) return message;
  }
  return std::nullopt;
}

void MpiProcesses::wake_bus() {
  const std::lock_guard lock(queue_mutex_);
  if (!rests_long_) return;
  is_wanted_ = true;
  queued_.notify_one();
}

bool MpiProcesses::drive() {
  const std::unique_lock lock(mpi_mutex_, std::try_to_lock);
  if (!lock || !may_drive_) return false;
  try {
    if (move_messages()) driven_.fetch_add(1, std::memory_order_relaxed);
  } catch (const std::exception& error) {
    abort(fmt::format("{}: {}", name_of(rank()), error.what()));
  }
  return true;
}

bool MpiProcesses::leave(milliseconds patience) {
  if (!bus_.joinable()) return false;
  say_goodbye();
  const auto end = Clock::now() + patience;
  bool all = false;
  const auto have_left = [&] {
    const std::lock_guard lock(watch_mutex_);
    return watch_->have_all_left_or_gone();
  };
  while (!(all = have_left()) && Clock::now() < end) std::this_thread::sleep_for(milliseconds(1));
  // After an abort, too: whoever has said goodbye comes to the end of MPI as well, unless a signal
  // ended it.
  const bool in_order = all && !is_any_lost() && !was_left();
  {
    const std::lock_guard lock(queue_mutex_);
    is_leaving_ = true;
    may_finalize_ = in_order;
  }
  queued_.notify_one();
  const bool ended =
      has_ended_.wait_until(std::max(end, Clock::now() + kTimeToEnd)) == std::future_status::ready;
  if (ended)
    bus_.join();
  else
    bus_.detach();  // inside MPI; the process ends at once
  return ended && in_order;
}

void MpiProcesses::join() {
  // Where processes outnumber cores, Open MPI would give up the processor in every poll, for whole
  // time slices: ten times the time of a step. The bus sleeps by itself.
  ::setenv("OMPI_MCA_mpi_yield_when_idle", "0", 0);
  // A connection that breaks while MPI writes to it is an error of its call, not the process's end.
  std::signal(SIGPIPE, SIG_IGN);
  int level = 0;
  check_mpi(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &level), "MPI_Init_thread");
  check_mpi(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  int process = 0, processes = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &process);
  MPI_Comm_size(MPI_COMM_WORLD, &processes);
  require(level >= MPI_THREAD_FUNNELED, ErrorCode::kDevice, "this MPI knows no threads");
  if (static_cast<std::size_t>(processes) != size() ||
      static_cast<std::size_t>(process) != rank().index()) {
    MPI_Finalize();
    fail(ErrorCode::kDevice,
         "{} started process {} of {}, and MPI sees process {} of {}: the launcher is not the one "
         "of the MPI of this build ({}); with Slurm, srun --mpi=pmix",
         launched_.launcher, launched_.process, size(), process, processes, "Open MPI");
  }
  receiving_.resize(size());
  readers_.resize(size());
  numbers_.resize(size());
  {
    const std::lock_guard lock(mpi_mutex_);
    may_drive_ = level >= MPI_THREAD_SERIALIZED;
  }
  const std::lock_guard lock(watch_mutex_);
  watch_.emplace(rank().index(), size(), options_.timeout, Clock::now());
}

void MpiProcesses::run_bus() {
#ifdef __linux__
  ::prctl(PR_SET_TIMERSLACK, 1);  // else the kernel adds 50 microseconds to every sleep
#endif
  try {
    join();
  } catch (...) {
    joined_.set_exception(std::current_exception());
    ended_.set_value();
    return;
  }
  joined_.set_value();
  try {
    poll();
  } catch (const std::exception& error) {
    abort(fmt::format("{}: {}", name_of(rank()), error.what()));
  }
  {
    const std::lock_guard lock(mpi_mutex_);
    may_drive_ = false;
  }
  ended_.set_value();
}

bool MpiProcesses::move_messages() {
  bool acted = send_queued();
  acted = finish_sends() || acted;
  acted = accept() || acted;
  return take_arrived() || acted;
}

void MpiProcesses::poll() {
  auto active = Clock::now();
  std::int64_t known_driven = 0;
  for (int idle = 0;; ++idle) {
    const std::int64_t driven = driven_.load(std::memory_order_relaxed);
    bool acted = false, is_sending = true, is_moving = true;
    if (const std::unique_lock lock(mpi_mutex_, std::try_to_lock); lock) {
      acted = move_messages();
      is_sending = !sending_.empty();
      is_moving = is_sending || std::any_of(receiving_.begin(), receiving_.end(),
                                            [](const auto& list) { return !list.empty(); });
    }
    const auto now = Clock::now();
    if (acted) idle = 0;
    if (acted || driven != known_driven) active = now;
    known_driven = driven;
    if (now - active < kLongIdle) look_at_machine(now);
    beat(now);
    {
      const std::lock_guard lock(queue_mutex_);
      const bool is_sent_or_void = !is_sending || !may_finalize_ || is_aborted_.load();
      if (is_leaving_ && queue_.empty() && is_sent_or_void) break;
    }
    rest(idle, active, is_moving);
  }
  const std::lock_guard lock(mpi_mutex_);
  may_drive_ = false;
  if (may_finalize_) check_mpi(MPI_Finalize(), "MPI_Finalize");
}

bool MpiProcesses::is_sent(int result, std::size_t to) {
  if (result == MPI_SUCCESS) return true;
  try {
    check_mpi(result, "a message cannot be sent");
  } catch (const std::exception& error) {
    if (abort_reason().empty()) abort(fmt::format("{}: {}", name_of(Rank(to)), error.what()));
  }
  return false;
}

bool MpiProcesses::send_queued() {
  if (!has_queued_.load(std::memory_order_acquire)) return false;
  std::vector<Outgoing> queued;
  {
    const std::lock_guard lock(queue_mutex_);
    queued.swap(queue_);
    has_queued_.store(false, std::memory_order_relaxed);
  }
  for (Outgoing& message : queued) {
    sending_.push_back(std::move(message));
    Outgoing& sent = sending_.back();
    set_number(sent.bytes, numbers_[sent.to]++);
    const int result = MPI_Isend(sent.bytes.data(), static_cast<int>(sent.bytes.size()), MPI_BYTE,
                                 static_cast<int>(sent.to), 0, MPI_COMM_WORLD, &sent.request);
    if (is_sent(result, sent.to)) continue;
    sending_.pop_back();
    --num_unsent_;
  }
  return !queued.empty();
}

bool MpiProcesses::finish_sends() {
  bool acted = false;
  for (auto message = sending_.begin(); message != sending_.end();) {
    int done = 0;
    if (!is_sent(MPI_Test(&message->request, &done, MPI_STATUS_IGNORE), message->to)) done = 1;
    acted = acted || done != 0;
    if (done != 0) --num_unsent_;
    message = done != 0 ? sending_.erase(message) : std::next(message);
  }
  return acted;
}

bool MpiProcesses::accept() {
  bool acted = false;
  while (true) {
    int there = 0;
    MPI_Message message = MPI_MESSAGE_NULL;
    MPI_Status status;
    check_mpi(MPI_Improbe(MPI_ANY_SOURCE, 0, MPI_COMM_WORLD, &there, &message, &status),
              "MPI_Improbe");
    if (there == 0) return acted;
    acted = true;
    int size = 0;
    check_mpi(MPI_Get_count(&status, MPI_BYTE, &size), "MPI_Get_count");
    const auto from = static_cast<std::size_t>(status.MPI_SOURCE);
    Incoming& incoming = receiving_[from].emplace_back();
    incoming.bytes.resize(static_cast<std::size_t>(size));
    check_mpi(MPI_Imrecv(incoming.bytes.data(), size, MPI_BYTE, &message, &incoming.request),
              "MPI_Imrecv");
  }
}

// A long message may be complete after a short one that was sent later: it is waited for.
bool MpiProcesses::take_arrived() {
  bool acted = false;
  for (std::size_t from = 0; from < receiving_.size(); ++from) {
    std::list<Incoming>& list = receiving_[from];
    for (auto incoming = list.begin(); incoming != list.end();) {
      int done = 0;
      check_mpi(MPI_Test(&incoming->request, &done, MPI_STATUS_IGNORE), "MPI_Test of a receive");
      if (done != 0) heard(from, std::move(incoming->bytes));
      acted = acted || done != 0;
      incoming = done != 0 ? list.erase(incoming) : std::next(incoming);
    }
    while (std::optional<WireMessage> message = readers_[from].take())
      arrived(from, std::move(*message));
  }
  return acted;
}

void MpiProcesses::heard(std::size_t from, HostBytes part) {
  readers_[from].put(std::move(part));
  const std::lock_guard lock(watch_mutex_);
  watch_->heard(from, Clock::now());
}

void MpiProcesses::arrived(std::size_t from, WireMessage message) {
  switch (message.trailer.kind) {
    case WireKind::kMessage:
      mailbox_.put(message.trailer.tag(), {Rank(from), std::move(message.bytes)});
      break;
    case WireKind::kAlive:
      break;
    case WireKind::kAbort:
      abort_here(host_text(message.bytes), has_left(from));
      break;
    case WireKind::kGoodbye: {
      const std::lock_guard lock(watch_mutex_);
      watch_->left(from);
      break;
    }
  }
}

void MpiProcesses::look_at_machine(Clock::time_point now) {
  if (now < next_count_) return;
  next_count_ = now + kCount;
  if (const std::optional<std::int64_t> runnable = runnable_.now())
    patience_.note(*runnable - 1, std::thread::hardware_concurrency());
}

void MpiProcesses::beat(Clock::time_point now) {
  if (now >= next_look_) {
    next_look_ = now + kLook;
    look(now);
  }
  if (now < next_beat_) return;
  next_beat_ = now + std::min<milliseconds>(options_.timeout / 4, kLongestBeat);
  for (std::size_t peer = 0; peer < size(); ++peer)
    if (peer != rank().index()) queue(peer, {.kind = WireKind::kAlive}, {});
}

void MpiProcesses::rest(int idle_polls, Clock::time_point active, bool is_moving) {
  if (idle_polls < kBusyPolls) return;
  std::unique_lock lock(queue_mutex_);
  const auto idle = Clock::now() - active;
  const bool is_needed = is_moving || (waiting_ > 0 && looking_ == 0);
  rests_long_ = !is_needed || idle > kLongIdle;
  const bool hurries = idle <= kShortIdle && !patience_.is_crowded();
  queued_.wait_for(lock,
                   rests_long_ ? kLongSleep
                   : hurries   ? kShortSleep
                               : kSleep,
                   [this] { return !queue_.empty() || is_leaving_ || is_wanted_; });
  rests_long_ = is_wanted_ = false;
}

}  // namespace

std::shared_ptr<ProcessGroup> join_processes(const Launched& launched,
                                             const ProcessOptions& options) {
  const auto processes = std::make_shared<MpiProcesses>(launched, options);
  processes->begin();
  return {processes.get(), [processes](ProcessGroup*) { processes->end(); }};
}

}  // namespace sextant

#else

namespace sextant {

bool has_mpi() { return false; }

std::shared_ptr<ProcessGroup> join_processes(const Launched& launched, const ProcessOptions&) {
  fail(ErrorCode::kDevice,
       "{} started {} processes, and this build has no MPI (switched off, or libopenmpi-dev was "
       "not found, when it was configured): run one process, or configure again with -Dmpi=enabled",
       launched.launcher, launched.processes);
}

}  // namespace sextant

#endif
