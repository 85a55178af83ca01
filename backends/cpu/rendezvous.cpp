// One mutex guards all meetings; data moves outside it. A meeting leaves the table when the last
// member has taken its result.
#include "backends/cpu/rendezvous.h"

#include "backends/cpu/script_interpreter.h"
#include "core/base/check.h"
#include "core/graphs/meeting_members.h"

#include <algorithm>

namespace sextant {

class Rendezvous::Meeting {
 public:
  Key key;
  std::vector<std::optional<Half>> halves;  // by position in the group
  std::size_t arrived = 0, left = 0;
  bool done = false;
  std::optional<std::string> failure;
  std::condition_variable changed;
};

namespace {

std::string text_of(const PhysicalGraph& graph, LayoutId id) {
  const Layout& layout = graph.layouts[id.index()];
  return fmt::format("{} {} {}@{}", to_string(layout.global.dtype), to_string(layout.global.shape),
                     to_string(layout.words),
                     to_string(graph.placements[layout.placement.index()]));
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
                       CpuCollectives collectives)
    : graph_(graph), timeout_(timeout), collectives_(collectives) {}

void Rendezvous::check_not_aborted() const {
  if (abort_reason_) fail(ErrorCode::kRankFailed, "stopped: {}", *abort_reason_);
}

Rendezvous::Ticket Rendezvous::meeting_of(const Half& half) {
  Ticket& ticket = meetings_[{half.group, half.occurrence}];
  if (!ticket) {
    ticket = std::make_shared<Meeting>();
    ticket->key = {half.group, half.occurrence};
    ticket->halves.resize(graph_.groups[half.group.index()].ranks.size());
  }
  return ticket;
}

void Rendezvous::check_fingerprint(const Meeting& meeting, const Half& half) const {
  for (const std::optional<Half>& other : meeting.halves) {
    if (!other || are_same(graph_, *half.communication, *other->communication)) continue;
    fail(ErrorCode::kRankFailed,
         "communication {} of group '{}' is not the same on all ranks: {}; {}", half.occurrence,
         graph_.groups[half.group.index()].name, text_of(graph_, half), text_of(graph_, *other));
  }
}

Rendezvous::Ticket Rendezvous::post(const Half& half) {
  std::unique_lock lock(mutex_);
  check_not_aborted();
  const DeviceGroup& group = graph_.groups[half.group.index()];
  const auto member = std::find(group.ranks.begin(), group.ranks.end(), half.rank);
  require(member != group.ranks.end(), ErrorCode::kRankFailed,
          "rank {} is no member of group '{}', in which '{}' communicates", half.rank.value,
          group.name, half.name);
  const Ticket meeting = meeting_of(half);
  check_fingerprint(*meeting, half);
  std::optional<Half>& place =
      meeting->halves[static_cast<std::size_t>(member - group.ranks.begin())];
  require(!place, ErrorCode::kRankFailed,
          "rank {} brings '{}' and '{}' to the same communication {} of group '{}'",
          half.rank.value, place ? place->name : "", half.name, half.occurrence, group.name);
  place = half;
  if (++meeting->arrived < meeting->halves.size()) return meeting;
  lock.unlock();
  run(*meeting);
  return meeting;
}

void Rendezvous::run(Meeting& meeting) {
  const DeviceGroup& group = graph_.groups[meeting.key.first.index()];
  std::vector<MemberBuffers> buffers;
  for (const std::optional<Half>& half : meeting.halves) buffers.push_back(half->buffers);
  Traffic traffic;
  std::optional<std::string> failure;
  try {
    const CollectiveCall call{&graph_, meeting.halves.front()->communication, group.ranks, buffers};
    if (collectives_ == CpuCollectives::kScripts)
      run_scripts(call, traffic);
    else
      run_collective(call, traffic);
  } catch (const std::exception& error) {
    failure = error.what();
  }
  const std::lock_guard lock(mutex_);
  for (const auto& [pair, bytes] : traffic) traffic_[pair] += bytes;
  meeting.failure = std::move(failure);
  meeting.done = true;
  meeting.changed.notify_all();
}

std::string Rendezvous::missing_text(const Meeting& meeting) const {
  std::vector<bool> has_arrived;
  for (const std::optional<Half>& half : meeting.halves) has_arrived.push_back(half.has_value());
  return arrivals_text(graph_, meeting.key.first, meeting.key.second, has_arrived);
}

void Rendezvous::wait(const Ticket& ticket) {
  std::unique_lock lock(mutex_);
  Meeting& meeting = *ticket;
  const bool in_time = meeting.changed.wait_for(
      lock, timeout_, [&] { return meeting.done || abort_reason_.has_value(); });
  if (!in_time)
    fail(ErrorCode::kRankFailed, "timed out after {} ms in {}", timeout_.count(),
         missing_text(meeting));
  if (!meeting.done) check_not_aborted();
  if (++meeting.left == meeting.halves.size()) meetings_.erase(meeting.key);
  if (meeting.failure) fail(ErrorCode::kRankFailed, "{}", *meeting.failure);
}

void Rendezvous::abort(const std::string& reason) {
  const std::lock_guard lock(mutex_);
  if (!abort_reason_) abort_reason_ = reason;
  for (const auto& [key, meeting] : meetings_) meeting->changed.notify_all();
}

Traffic Rendezvous::traffic() const {
  const std::lock_guard lock(mutex_);
  return traffic_;
}

}  // namespace sextant
