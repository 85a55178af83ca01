// One thread of each process, the bus, makes all calls of MPI: it sends what is queued, puts what
// comes into the mailbox, says every now and then that it lives, and looks whether the others do.
// Nobody ever blocks inside the library, so a peer that is lost costs a timeout and no hang.
//
// On the wire a message is its bytes and a trailer behind them: kind, tag, whether more of it
// follows. The trailer is cut off where the message arrives. Whoever sends copies the bytes to
// append it, on his own thread, outside of every lock.
#include "backends/hosts/peer_watch.h"
#include "backends/hosts/process_group.h"
#include "core/base/check.h"

#ifdef SEXTANT_HAS_MPI

#include <mpi.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <future>
#include <iterator>
#include <list>
#include <map>
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

enum class WireKind : std::uint8_t { kMessage, kAlive, kAbort, kGoodbye };

struct Trailer {
  std::uint64_t key = 0;
  WireKind kind = WireKind::kMessage;
  HostSubject subject = HostSubject::kGather;
  bool more = false;
  std::uint8_t unused[5] = {};
};
static_assert(sizeof(Trailer) == 16 && std::is_trivially_copyable_v<Trailer>);

// MPI counts bytes in an int.
constexpr std::size_t kLongestPart = std::size_t{1} << 30;
// Polls of an idle bus before it sleeps, and how long it sleeps: a sleeping bus is woken by what is
// to be sent, not by what comes. It never yields: on a busy processor that costs a time slice.
constexpr int kBusyPolls = 30;
constexpr microseconds kShortSleep{40};
constexpr microseconds kLongSleep{500};
constexpr milliseconds kLongIdle{200};
constexpr milliseconds kLook{50};
constexpr milliseconds kLongestBeat{500};
constexpr milliseconds kTimeToEnd{500};  // for MPI, after the goodbyes

void check_mpi(int result, const char* call) {
  if (result == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  MPI_Error_string(result, text, &length);
  fail(ErrorCode::kRankFailed, "{}: {}", call, text);
}

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
    const HostTag tag{HostSubject::kGather, gathers_++};
    for (std::size_t peer = 0; peer < size(); ++peer)
      if (peer != rank().index()) send(Rank(peer), tag, {own.begin(), own.end()});
    std::vector<HostBytes> all(size());
    for (std::size_t peer = 0; peer < size(); ++peer)
      all[peer] =
          peer == rank().index() ? HostBytes(own.begin(), own.end()) : receive(Rank(peer), tag);
    return all;
  }
  void send(Rank to, HostTag tag, HostBytes bytes) override {
    mailbox_.require_open();
    if (to == rank()) return mailbox_.put(tag, {to, std::move(bytes)});
    sent_bytes_ += static_cast<std::int64_t>(bytes.size());
    queue(to.index(), {.key = tag.key, .subject = tag.subject}, std::move(bytes));
  }
  HostBytes receive(Rank from, HostTag tag) override { return mailbox_.take(from, tag); }
  HostMessage receive_any(HostTag tag) override { return mailbox_.take_any(tag); }

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
  void queue(std::size_t to, Trailer trailer, HostBytes bytes);
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
  void look(Clock::time_point now);

  // Of the bus.
  void run_bus();
  void join();
  void poll();
  // A message that cannot be sent says that its receiver is lost, not that this process has failed.
  bool is_sent(int result, std::size_t to);
  bool send_queued();
  bool finish_sends();
  bool accept();
  bool take_arrived();
  void arrived(std::size_t from, HostBytes bytes);
  void beat(Clock::time_point now);
  void rest(int idle_polls, Clock::time_point active);

  const Launched launched_;
  const ProcessOptions options_;
  HostMailbox mailbox_;
  std::uint64_t gathers_ = 0;
  std::vector<std::size_t> machines_;
  std::atomic<std::int64_t> sent_bytes_{0};
  std::atomic<bool> is_aborted_{false}, has_said_goodbye_{false};
  std::atomic<std::size_t> num_unsent_{0};  // messages that MPI has not taken over whole
  std::promise<void> joined_;
  std::promise<void> ended_;
  std::future<void> has_ended_ = ended_.get_future();

  std::mutex queue_mutex_;
  std::condition_variable queued_;
  std::vector<Outgoing> queue_;
  bool is_leaving_ = false;  // the bus ends when all is sent
  bool may_finalize_ = false;

  mutable std::mutex watch_mutex_;
  std::optional<PeerWatch> watch_;
  std::vector<std::string> work_;
  std::string abort_reason_, lost_reason_;
  bool was_left_ = false;

  // Of the bus alone.
  std::list<Outgoing> sending_;
  std::vector<std::deque<Incoming>> receiving_;  // by sender, in its order
  std::vector<std::map<HostTag, HostBytes>> parts_;
  Clock::time_point next_beat_, next_look_;

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

void MpiProcesses::queue(std::size_t to, Trailer trailer, HostBytes bytes) {
  std::vector<Outgoing> parts;
  const std::span<const std::byte> all(bytes);
  for (std::size_t first = 0; first == 0 || first < all.size(); first += kLongestPart) {
    const auto part = all.subspan(first, std::min(kLongestPart, all.size() - first));
    trailer.more = first + part.size() < all.size();
    HostBytes sent;
    sent.reserve(part.size() + sizeof(trailer));
    sent.assign(part.begin(), part.end());
    const auto tail = std::as_bytes(std::span(&trailer, 1));
    sent.insert(sent.end(), tail.begin(), tail.end());
    parts.push_back({to, std::move(sent)});
  }
  {
    const std::lock_guard lock(queue_mutex_);
    num_unsent_ += parts.size();
    std::move(parts.begin(), parts.end(), std::back_inserter(queue_));
  }
  queued_.notify_one();
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
  int level = 0;
  check_mpi(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &level), "MPI_Init_thread");
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
  parts_.resize(size());
  const std::lock_guard lock(watch_mutex_);
  watch_.emplace(rank().index(), size(), options_.timeout, Clock::now());
}

void MpiProcesses::run_bus() {
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
  ended_.set_value();
}

void MpiProcesses::poll() {
  auto active = Clock::now();
  for (int idle = 0;; ++idle) {
    bool acted = send_queued();
    acted = finish_sends() || acted;
    acted = accept() || acted;
    acted = take_arrived() || acted;
    const auto now = Clock::now();
    if (acted) {
      active = now;
      idle = 0;
    }
    beat(now);
    {
      const std::lock_guard lock(queue_mutex_);
      const bool is_sent_or_void = sending_.empty() || !may_finalize_ || is_aborted_.load();
      if (is_leaving_ && queue_.empty() && is_sent_or_void) break;
    }
    rest(idle, active);
  }
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
  std::vector<Outgoing> queued;
  {
    const std::lock_guard lock(queue_mutex_);
    queued.swap(queue_);
  }
  for (Outgoing& message : queued) {
    sending_.push_back(std::move(message));
    Outgoing& sent = sending_.back();
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
    std::deque<Incoming>& list = receiving_[from];
    while (!list.empty()) {
      int done = 0;
      check_mpi(MPI_Test(&list.front().request, &done, MPI_STATUS_IGNORE), "MPI_Test of a receive");
      if (done == 0) break;
      acted = true;
      HostBytes bytes = std::move(list.front().bytes);
      list.pop_front();
      arrived(from, std::move(bytes));
    }
  }
  return acted;
}

void MpiProcesses::arrived(std::size_t from, HostBytes bytes) {
  Trailer trailer;
  require(bytes.size() >= sizeof(trailer), ErrorCode::kRankFailed,
          "a message of {} bytes from process {} has no trailer", bytes.size(), from);
  std::memcpy(&trailer, bytes.data() + bytes.size() - sizeof(trailer), sizeof(trailer));
  bytes.resize(bytes.size() - sizeof(trailer));
  bool has_left = false;
  {
    const std::lock_guard lock(watch_mutex_);
    watch_->heard(from, Clock::now());
    if (trailer.kind == WireKind::kGoodbye) watch_->left(from);
    has_left = watch_->state(from) == PeerState::kLeft;
  }
  if (trailer.kind == WireKind::kAbort) abort_here(host_text(bytes), has_left);
  if (trailer.kind != WireKind::kMessage) return;
  const HostTag tag{trailer.subject, trailer.key};
  std::map<HostTag, HostBytes>& parts = parts_[from];
  if (const auto begun = parts.find(tag); begun != parts.end()) {
    begun->second.insert(begun->second.end(), bytes.begin(), bytes.end());
    if (trailer.more) return;
    bytes = std::move(begun->second);
    parts.erase(begun);
  } else if (trailer.more) {
    parts.emplace(tag, std::move(bytes));
    return;
  }
  mailbox_.put(tag, {Rank(from), std::move(bytes)});
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

void MpiProcesses::rest(int idle_polls, Clock::time_point active) {
  if (idle_polls < kBusyPolls) return;
  std::unique_lock lock(queue_mutex_);
  queued_.wait_for(lock, Clock::now() - active > kLongIdle ? kLongSleep : kShortSleep,
                   [this] { return !queue_.empty() || is_leaving_; });
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
