// One mutex and one condition for all meetings: there are few ranks, and each waits twice per
// communication. Addresses of peers come with the meeting; moves are made from them as they are
// enqueued.
#include "backends/cuda/local_exchange.h"

#include "backends/cuda/cuda_check.h"
#include "backends/cuda/kernels/movement/moves.h"
#include "backends/cuda/kernels/movement/ring_reduce.h"
#include "core/base/check.h"
#include "core/graphs/meeting_members.h"

#include <algorithm>

namespace sextant {

using ExchangeKind = ExchangeCall::Kind;

struct LocalExchange::Meeting {
  Key key;
  std::vector<const CudaCommunication*> members;  // by position in the group; null: not there yet
  std::size_t arrived = 0, pulled = 0;
  bool all_arrived() const { return arrived == members.size(); }
  bool all_pulled() const { return pulled == members.size(); }
};

// A communication of this rank that is under way.
struct LocalExchange::Pending {
  enum class Stage : std::uint8_t { kPosted, kPulled, kDone };
  Part part;
  std::shared_ptr<Meeting> meeting;
  Stage stage = Stage::kPosted;
  bool can_go_on() const {
    return (stage == Stage::kPosted && meeting->all_arrived()) ||
           (stage == Stage::kPulled && meeting->all_pulled());
  }
};

namespace {

// Whether the result of a call is made aside: it would overwrite an input that peers still read.
bool reduces(const ExchangeCall& call) {
  return call.kind == ExchangeKind::kAllReduce || call.kind == ExchangeKind::kReduceScatter;
}

void enqueue_copy(DType dtype, std::int64_t elements, const std::byte* from, std::byte* to,
                  cudaStream_t stream) {
  if (from == to || elements == 0) return;
  SEXTANT_CUDA(enqueue_move(make_move(dtype, from, to, {{elements, 1, 1}}, false), stream));
}

// The send of `peer` that the `number`-th receive of `member` from it takes.
const ExchangeCall& send_to(const CudaCommunication& peer, std::size_t member,
                            std::int64_t number) {
  for (const ExchangeCall& call : peer.script().exchange)
    if (call.kind == ExchangeKind::kSend && call.peer == static_cast<std::int32_t>(member) &&
        number-- == 0)
      return call;
  fail(ErrorCode::kInternal, "'{}': rank {} does not send what a peer receives", peer.name,
       peer.rank.value);
}

}  // namespace

LocalExchange::LocalExchange(const PhysicalGraph& graph, std::chrono::milliseconds timeout)
    : graph_(graph), timeout_(timeout) {}

Bytes LocalExchange::beside_staging(const CollectiveScript& script) const {
  Bytes bytes;
  for (const ExchangeCall& call : script.exchange)
    if (reduces(call)) bytes += size_of(script.dtype) * call.elements;
  return bytes;
}

void LocalExchange::check_not_aborted() const {
  if (abort_reason_) fail(ErrorCode::kRankFailed, "stopped: {}", *abort_reason_);
}

std::shared_ptr<LocalExchange::Meeting> LocalExchange::post(const Part& part) {
  const CudaCommunication& own = *part.communication;
  const std::lock_guard lock(mutex_);
  check_not_aborted();
  const Key key{own.group, own.occurrence(part.step)};
  std::shared_ptr<Meeting>& meeting = meetings_[key];
  if (!meeting) {
    meeting = std::make_shared<Meeting>();
    meeting->key = key;
    meeting->members.resize(own.num_members());
  }
  for (const CudaCommunication* other : meeting->members)
    require(other == nullptr || are_same(graph_, own.communication(), other->communication()),
            ErrorCode::kRankFailed,
            "communication {} of group '{}' is not the same on all ranks: rank {} brings '{}', "
            "rank {} '{}'",
            key.second, graph_.groups[own.group].name, own.rank.value, own.name,
            other == nullptr ? 0 : other->rank.value, other == nullptr ? "" : other->name);
  const CudaCommunication*& place = meeting->members[own.member()];
  require(place == nullptr, ErrorCode::kRankFailed,
          "rank {} comes twice to communication {} of group '{}', with '{}'", own.rank.value,
          key.second, graph_.groups[own.group].name, own.name);
  place = &own;
  if (++meeting->arrived == meeting->members.size()) {
    count(*meeting);
    changed_.notify_all();
  }
  return meeting;
}

void LocalExchange::count(const Meeting& meeting) {
  const CudaCommunication& first = *meeting.members.front();
  auto& [once, meetings] = traffic_[{first.group, first.index_in_step}];
  if (meetings++ > 0) return;
  std::vector<CollectiveScript> scripts;
  for (const CudaCommunication* member : meeting.members) scripts.push_back(member->script());
  add_traffic(scripts, graph_.groups[first.group].ranks, once);
}

Traffic LocalExchange::traffic() const {
  const std::lock_guard lock(mutex_);
  Traffic all;
  for (const auto& [key, counted] : traffic_)
    for (const auto& [pair, bytes] : counted.first) all[pair] += bytes * counted.second;
  return all;
}

void LocalExchange::post_pulled(Meeting& meeting) {
  const std::lock_guard lock(mutex_);
  check_not_aborted();
  if (++meeting.pulled < meeting.members.size()) return;
  meetings_.erase(meeting.key);
  changed_.notify_all();
}

// Streams wait for events of peers' streams, which have been enqueued.
void LocalExchange::abort(const std::string& reason, Rank) {
  const std::lock_guard lock(mutex_);
  if (!abort_reason_) abort_reason_ = reason;
  changed_.notify_all();
}

std::optional<std::string> LocalExchange::abort_reason() const {
  const std::lock_guard lock(mutex_);
  return abort_reason_;
}

// Whoever is gone from a meeting had all its peers there.
std::string LocalExchange::arrivals(const CudaCommunication& communication,
                                    std::int64_t step) const {
  const std::lock_guard lock(mutex_);
  const auto found = meetings_.find({communication.group, communication.occurrence(step)});
  if (found != meetings_.end()) return missing_text(*found->second);
  return arrivals_text(graph_, communication.group, communication.occurrence(step),
                       std::vector<bool>(communication.num_members(), true));
}

std::string LocalExchange::missing_text(const Meeting& meeting) const {
  std::vector<bool> has_arrived;
  for (const CudaCommunication* member : meeting.members) has_arrived.push_back(member != nullptr);
  return arrivals_text(graph_, meeting.key.first, meeting.key.second, has_arrived);
}

// Whichever can go on: two ranks may have the members of a launch group in any order.
LocalExchange::Pending& LocalExchange::next_of(std::vector<Pending>& pending) {
  std::unique_lock lock(mutex_);
  auto found = pending.end();
  const bool in_time = changed_.wait_for(lock, timeout_, [&] {
    found = std::find_if(pending.begin(), pending.end(),
                         [](const Pending& part) { return part.can_go_on(); });
    return found != pending.end() || abort_reason_.has_value();
  });
  check_not_aborted();
  if (!in_time) {
    const auto stuck = std::find_if(pending.begin(), pending.end(), [](const Pending& part) {
      return part.stage != Pending::Stage::kDone;
    });
    fail(ErrorCode::kRankFailed, "timed out after {} ms in {}", timeout_.count(),
         missing_text(*stuck->meeting));
  }
  return *found;
}

void LocalExchange::enqueue(std::span<const Part> parts) {
  std::vector<Pending> pending;
  for (const Part& part : parts) {
    part.communication->enqueue_before(part.stream);
    SEXTANT_CUDA(cudaEventRecord(part.communication->ready(), part.stream));
    pending.push_back({part, post(part)});
  }
  for (std::size_t steps = 0; steps < 2 * parts.size(); ++steps) {
    Pending& next = next_of(pending);
    if (next.stage == Pending::Stage::kPosted) {
      pull(next.part, *next.meeting);
      SEXTANT_CUDA(cudaEventRecord(next.part.communication->pulled(), next.part.stream));
      next.stage = Pending::Stage::kPulled;
      post_pulled(*next.meeting);
    } else {
      finish(next.part, *next.meeting);
      next.stage = Pending::Stage::kDone;
    }
  }
}

void LocalExchange::pull(const Part& part, const Meeting& meeting) const {
  const CudaCommunication& own = *part.communication;
  for (const CudaCommunication* peer : meeting.members)
    if (peer != &own) SEXTANT_CUDA(cudaStreamWaitEvent(part.stream, peer->ready(), 0));
  const std::vector<ExchangeCall>& calls = own.script().exchange;
  if (!calls.empty() && is_ring(calls.front().kind)) return pull_ring(part, meeting);
  std::vector<std::int64_t> received(meeting.members.size(), 0);
  for (const ExchangeCall& call : calls) {
    if (call.kind != ExchangeKind::kReceive) continue;
    const auto source = static_cast<std::size_t>(call.peer);
    const CudaCommunication& peer = *meeting.members[source];
    const ExchangeCall& sent = send_to(peer, own.member(), received[source]++);
    enqueue_copy(own.script().dtype, call.elements, peer.buffers().at(sent.from),
                 own.buffers().at(call.to), part.stream);
  }
}

void LocalExchange::pull_ring(const Part& part, const Meeting& meeting) const {
  const CudaCommunication& own = *part.communication;
  const ExchangeCall& call = own.script().exchange.front();
  const std::int64_t part_bytes = (size_of(own.script().dtype) * call.elements).value;
  const auto from_of = [](const CudaCommunication& member) {
    return member.buffers().at(member.script().exchange.front().from);
  };
  if (call.kind == ExchangeKind::kAllGather) {
    std::byte* to = own.buffers().at(call.to);
    for (const CudaCommunication* peer : meeting.members) {
      enqueue_copy(own.script().dtype, call.elements, from_of(*peer), to, part.stream);
      to += part_bytes;
    }
    return;
  }
  CudaRingReduce reduce;
  require(meeting.members.size() <= static_cast<std::size_t>(kMostRingMembers),
          ErrorCode::kInfeasible, "'{}': {} ranks reduce together, --collectives local takes {}",
          own.name, meeting.members.size(), kMostRingMembers);
  const bool scatters = call.kind == ExchangeKind::kReduceScatter;
  const std::int64_t offset = scatters ? static_cast<std::int64_t>(own.member()) * part_bytes : 0;
  for (const CudaCommunication* peer : meeting.members)
    reduce.from[reduce.members++] = from_of(*peer) + offset;
  reduce.to = own.aside();
  reduce.elements = call.elements;
  reduce.owner = scatters ? static_cast<int>(own.member()) : -1;
  reduce.op = call.op;
  reduce.dtype = own.script().dtype;
  SEXTANT_CUDA(enqueue_ring_reduce(reduce, part.stream));
}

void LocalExchange::finish(const Part& part, const Meeting& meeting) const {
  CudaCommunication& own = *part.communication;
  for (const CudaCommunication* peer : meeting.members)
    if (peer != &own) SEXTANT_CUDA(cudaStreamWaitEvent(part.stream, peer->pulled(), 0));
  for (const ExchangeCall& call : own.script().exchange)
    if (reduces(call))
      enqueue_copy(own.script().dtype, call.elements, own.aside(), own.buffers().at(call.to),
                   part.stream);
  own.enqueue_after(part.stream);
}

}  // namespace sextant
