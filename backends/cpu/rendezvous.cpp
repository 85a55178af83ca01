// One mutex guards all meetings; data moves outside it. A meeting leaves the table when the last
// member of this process has taken its result.
#include "backends/cpu/rendezvous.h"

#include "backends/cpu/script_interpreter.h"
#include "core/base/check.h"
#include "core/graphs/meeting_members.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <deque>
#include <type_traits>

namespace sextant {

class Rendezvous::Meeting {
 public:
  Key key;
  std::vector<std::optional<Half>> halves;  // by position in the group
  std::size_t arrived = 0, left = 0;
  std::size_t members_here = 0;
  bool done = false;
  std::optional<std::string> failure;
  std::condition_variable changed;
  // What halves point to whose ranks are in other processes.
  std::deque<Communication> communications;
  std::deque<std::string> names;
  // The process that the mover waits for; -1: none.
  std::atomic<std::int64_t> awaited{-1};
  // The last of all: whoever destroys the meeting waits until it has ended.
  ReusedThread mover;
};

namespace {

// What a process tells those of the other members; the name of the actor stands behind it.
struct Arrival {
  std::int64_t occurrence = 0;
  std::int32_t group = 0, position = 0;
  std::int32_t from = 0, to = 0;  // layouts: all processes have the same graph
  Primitive primitive{};
  ReduceOp reduce{};
  DType dtype{};
};
static_assert(std::is_trivially_copyable_v<Arrival>);

// For which a wait that knows only of ranks of its own process leaves the word to one that knows
// more.
constexpr std::chrono::milliseconds kLetOthersSpeak{2000};

constexpr HostTag kArrivalTag{HostSubject::kArrival, 0};

// Messages of one meeting.
class MeetingLinks final : public MemberLinks {
 public:
  MeetingLinks(const RankProcesses& processes, const std::vector<Rank>& ranks, HostTag tag,
               std::atomic<std::int64_t>& awaited)
      : group_(processes.group),
        tag_(tag),
        awaited_(awaited),
        homes_(processes.blocks.processes_of(ranks)) {}
  std::size_t home(std::size_t member) const override { return homes_[member]; }
  std::size_t here() const override { return group_.rank().index(); }
  void send(std::size_t process, std::span<const std::byte> bytes) override {
    group_.send(Rank(process), tag_, {bytes.begin(), bytes.end()});
  }
  void receive(std::size_t process, std::span<std::byte> bytes) override {
    awaited_ = static_cast<std::int64_t>(process);
    const HostBytes received = group_.receive(Rank(process), tag_);
    awaited_ = -1;
    require(received.size() == bytes.size(), ErrorCode::kRankFailed,
            "{} sent {} bytes where {} were due", group_.name_of(Rank(process)), received.size(),
            bytes.size());
    if (!bytes.empty()) std::memcpy(bytes.data(), received.data(), bytes.size());
  }

 private:
  HostGroup& group_;
  const HostTag tag_;
  std::atomic<std::int64_t>& awaited_;
  const std::vector<std::size_t> homes_;
};

// The tag of what one meeting moves: groups are fewer than 2^24, and 2^40 meetings of a group take
// years.
HostTag data_tag(GroupId group, std::int64_t occurrence) {
  constexpr int kOccurrenceBits = 40;
  return {HostSubject::kData, (static_cast<std::uint64_t>(group.index()) << kOccurrenceBits) |
                                  static_cast<std::uint64_t>(occurrence)};
}

std::string text_of(const PhysicalGraph& graph, LayoutId id) {
  const Layout& layout = graph.layouts[id];
  return fmt::format("{} {} {}@{}", to_string(layout.global.dtype), to_string(layout.global.shape),
                     to_string(layout.words), to_string(graph.placements[layout.placement]));
}

std::string text_of(const PhysicalGraph& graph, const Half& half) {
  const Communication& communication = *half.communication;
  return fmt::format("rank {} brings '{}': {} ({}, {}) {} -> {}", half.rank.value, half.name,
                     to_string(communication.primitive), to_string(communication.reduce),
                     to_string(communication.dtype), text_of(graph, communication.from),
                     text_of(graph, communication.to));
}

}  // namespace

Rendezvous::Rendezvous(const PhysicalGraph& graph, std::chrono::milliseconds timeout,
                       CpuCollectives collectives, const std::optional<RankProcesses>& processes)
    : graph_(graph), timeout_(timeout), collectives_(collectives), processes_(processes) {
  require(!processes || collectives == CpuCollectives::kDirect, ErrorCode::kUsage,
          "scripts run in one process");
}

Rendezvous::~Rendezvous() { disconnect(); }

std::size_t Rendezvous::home_of(Rank rank) const {
  return processes_ ? processes_->blocks.process_of(rank).index() : 0;
}

bool Rendezvous::is_here(Rank rank) const {
  return !processes_ || home_of(rank) == processes_->group.rank().index();
}

// Under the mutex.
void Rendezvous::fail_aborted(const Meeting* meeting) const {
  if (!processes_ || meeting == nullptr)
    fail(ErrorCode::kRankFailed, "stopped: {}", *abort_reason_);
  fail(ErrorCode::kRankFailed, "stopped: {}; waited in {}", *abort_reason_, missing_text(*meeting));
}

Rendezvous::Ticket Rendezvous::meeting_of(GroupId group, std::int64_t occurrence) {
  Ticket& ticket = meetings_[{group, occurrence}];
  if (!ticket) {
    const std::vector<Rank>& ranks = graph_.groups[group].ranks;
    ticket = std::make_shared<Meeting>();
    ticket->key = {group, occurrence};
    ticket->halves.resize(ranks.size());
    ticket->members_here = static_cast<std::size_t>(
        std::count_if(ranks.begin(), ranks.end(), [&](Rank rank) { return is_here(rank); }));
  }
  return ticket;
}

void Rendezvous::check_fingerprint(const Meeting& meeting, const Half& half) const {
  for (const std::optional<Half>& other : meeting.halves) {
    if (!other || are_same(graph_, *half.communication, *other->communication)) continue;
    fail(ErrorCode::kRankFailed,
         "communication {} of group '{}' is not the same on all ranks: {}; {}", half.occurrence,
         graph_.groups[half.group].name, text_of(graph_, half), text_of(graph_, *other));
  }
}

Rendezvous::Ticket Rendezvous::post(const Half& half) {
  std::unique_lock lock(mutex_);
  if (abort_reason_) fail_aborted(nullptr);
  const DeviceGroup& group = graph_.groups[half.group];
  const auto member = std::find(group.ranks.begin(), group.ranks.end(), half.rank);
  require(member != group.ranks.end(), ErrorCode::kRankFailed,
          "rank {} is no member of group '{}', in which '{}' communicates", half.rank.value,
          group.name, half.name);
  const auto position = static_cast<std::size_t>(member - group.ranks.begin());
  const Ticket meeting = meeting_of(half.group, half.occurrence);
  const bool is_complete = enter(*meeting, position, half);
  if (meeting->members_here < group.ranks.size()) {
    announce(half, position);
    if (is_complete) move(*meeting);
    return meeting;
  }
  if (!is_complete) return meeting;
  lock.unlock();
  run(*meeting);
  return meeting;
}

bool Rendezvous::enter(Meeting& meeting, std::size_t position, const Half& half) {
  check_fingerprint(meeting, half);
  std::optional<Half>& place = meeting.halves[position];
  require(!place, ErrorCode::kRankFailed,
          "rank {} brings '{}' and '{}' to the same communication {} of group '{}'",
          half.rank.value, place ? place->name : "", half.name, half.occurrence,
          graph_.groups[half.group].name);
  place = half;
  return ++meeting.arrived == meeting.halves.size();
}

// To each process once.
void Rendezvous::announce(const Half& half, std::size_t position) {
  const Communication& communication = *half.communication;
  const Arrival arrival{.occurrence = half.occurrence,
                        .group = half.group.value,
                        .position = static_cast<std::int32_t>(position),
                        .from = communication.from.value,
                        .to = communication.to.value,
                        .primitive = communication.primitive,
                        .reduce = communication.reduce,
                        .dtype = communication.dtype};
  HostBytes bytes(sizeof(arrival));
  std::memcpy(bytes.data(), &arrival, sizeof(arrival));
  const HostBytes name = host_bytes(half.name);
  bytes.insert(bytes.end(), name.begin(), name.end());
  std::vector<std::size_t> told{processes_->group.rank().index()};
  for (const Rank rank : graph_.groups[half.group].ranks) {
    const std::size_t home = home_of(rank);
    if (std::find(told.begin(), told.end(), home) != told.end()) continue;
    processes_->group.send(Rank(home), kArrivalTag, bytes);
    told.push_back(home);
  }
}

void Rendezvous::hear(const HostMessage& message) {
  Arrival arrival;
  require(message.bytes.size() >= sizeof(arrival), ErrorCode::kRankFailed,
          "{} sent an arrival of {} bytes", processes_->group.name_of(message.from),
          message.bytes.size());
  std::memcpy(&arrival, message.bytes.data(), sizeof(arrival));
  const std::lock_guard lock(mutex_);
  const GroupId group(arrival.group);
  const auto position = static_cast<std::size_t>(arrival.position);
  Meeting& meeting = *meeting_of(group, arrival.occurrence);
  Communication& communication = meeting.communications.emplace_back();
  communication.primitive = arrival.primitive;
  communication.reduce = arrival.reduce;
  communication.dtype = arrival.dtype;
  communication.from = LayoutId(arrival.from);
  communication.to = LayoutId(arrival.to);
  const std::string& name =
      meeting.names.emplace_back(host_text(std::span(message.bytes).subspan(sizeof(arrival))));
  const Half half{
      graph_.groups[group].ranks[position], group, arrival.occurrence, &communication, name, {}};
  if (enter(meeting, position, half)) move(meeting);
}

// An empty message, from this process, is the end.
void Rendezvous::hear_all(const std::function<void(const std::string&)>& lost) {
  const std::optional<std::string> reason = hear_messages(
      processes_->group, kArrivalTag, [this](const HostMessage& message) { hear(message); });
  if (!reason) return;
  abort(*reason);
  lost(*reason);
}

void Rendezvous::connect(const std::function<void(const std::string&)>& lost) {
  if (!processes_) return;
  const auto connected = [this](bool is_connected) {
    const std::lock_guard lock(mutex_);
    is_connected_ = is_connected;
  };
  connected(true);
  try {
    hearing_ = ReusedThread([this, lost] { hear_all(lost); });
  } catch (...) {
    connected(false);
    throw;
  }
}

void Rendezvous::disconnect() {
  bool is_idle = true;
  {
    const std::lock_guard lock(mutex_);
    if (!is_connected_) return;
    is_idle = num_running_ == 0 || abort_reason_.has_value();
  }
  // The group too, while it is connected: what moves data may wait for bytes that nobody sends.
  if (!is_idle) abort("the job has ended");
  {
    const std::lock_guard lock(mutex_);
    is_connected_ = false;
  }
  try {
    processes_->group.send(processes_->group.rank(), kArrivalTag, {});
  } catch (const Error&) {  // the group is aborted, and nobody waits for a message any more
  }
  hearing_.join();
  std::map<Key, Ticket> meetings;
  {
    const std::lock_guard lock(mutex_);
    meetings = meetings_;
  }
  for (const auto& [key, meeting] : meetings) meeting->mover.join();
}

// Under the mutex.
void Rendezvous::move(Meeting& meeting) {
  if (abort_reason_) return;
  meeting.mover = ReusedThread([this, &meeting] { run(meeting); });
  ++num_running_;
}

void Rendezvous::run(Meeting& meeting) {
  const DeviceGroup& group = graph_.groups[meeting.key.first];
  std::vector<MemberBuffers> buffers;
  for (const std::optional<Half>& half : meeting.halves) buffers.push_back(half->buffers);
  const bool is_spread = meeting.members_here < meeting.halves.size();
  std::optional<MeetingLinks> links;
  if (is_spread)
    links.emplace(*processes_, group.ranks, data_tag(meeting.key.first, meeting.key.second),
                  meeting.awaited);
  Traffic traffic;
  std::optional<std::string> failure;
  try {
    const CollectiveCall call{&graph_, meeting.halves.front()->communication, group.ranks, buffers,
                              links ? &*links : nullptr};
    if (collectives_ == CpuCollectives::kScripts)
      run_scripts(call, traffic);
    else
      run_collective(call, traffic);
  } catch (const std::exception& error) {
    failure = error.what();
  }
  const std::lock_guard lock(mutex_);
  for (const auto& [pair, bytes] : traffic) traffic_[pair] += bytes;
  if (is_spread) --num_running_;
  if (failure && is_spread) *failure += "; in " + missing_text(meeting);
  meeting.failure = std::move(failure);
  meeting.done = true;
  meeting.changed.notify_all();
}

std::string Rendezvous::missing_text(const Meeting& meeting) const {
  std::vector<bool> has_arrived;
  for (const std::optional<Half>& half : meeting.halves) has_arrived.push_back(half.has_value());
  std::string text = arrivals_text(graph_, meeting.key.first, meeting.key.second, has_arrived);
  if (!processes_) return text;
  std::vector<std::size_t> named;
  const std::vector<Rank>& ranks = graph_.groups[meeting.key.first].ranks;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const std::size_t home = home_of(ranks[i]);
    if (has_arrived[i] || std::find(named.begin(), named.end(), home) != named.end()) continue;
    text += fmt::format("{} {}", named.empty() ? "; missing are of" : ",",
                        processes_->group.name_of(Rank(home)));
    named.push_back(home);
  }
  if (const std::int64_t awaited = meeting.awaited; awaited >= 0)
    text += fmt::format("; what {} sends has not come",
                        processes_->group.name_of(Rank(static_cast<std::size_t>(awaited))));
  return text;
}

bool Rendezvous::misses_ranks_here_alone(const Meeting& meeting) const {
  if (!processes_ || meeting.awaited >= 0) return false;
  const std::vector<Rank>& ranks = graph_.groups[meeting.key.first].ranks;
  for (std::size_t i = 0; i < ranks.size(); ++i)
    if (!meeting.halves[i] && !is_here(ranks[i])) return false;
  return true;
}

void Rendezvous::wait(const Ticket& ticket) {
  std::unique_lock lock(mutex_);
  Meeting& meeting = *ticket;
  const auto is_over = [&] { return meeting.done || abort_reason_.has_value(); };
  bool in_time = meeting.changed.wait_for(lock, timeout_, is_over);
  if (!in_time && misses_ranks_here_alone(meeting))
    in_time = meeting.changed.wait_for(lock, std::min(timeout_ / 2, kLetOthersSpeak), is_over);
  if (!in_time)
    fail(ErrorCode::kRankFailed, "timed out after {} ms in {}", timeout_.count(),
         missing_text(meeting));
  if (!meeting.done) fail_aborted(&meeting);
  if (++meeting.left == meeting.members_here) meetings_.erase(meeting.key);
  if (meeting.failure) fail(ErrorCode::kRankFailed, "{}", *meeting.failure);
}

// Those whom it wakes fail with this reason and come here as well: the others hear of the first.
void Rendezvous::abort(const std::string& reason) {
  bool tells_others = false;
  {
    const std::lock_guard lock(mutex_);
    tells_others = is_connected_ && !abort_reason_;
    if (!abort_reason_) abort_reason_ = reason;
    for (const auto& [key, meeting] : meetings_) meeting->changed.notify_all();
  }
  if (tells_others)
    processes_->group.abort(
        fmt::format("{} ({})", reason, processes_->group.name_of(processes_->group.rank())));
}

Traffic Rendezvous::traffic() const {
  const std::lock_guard lock(mutex_);
  return traffic_;
}

}  // namespace sextant
