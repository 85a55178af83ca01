// A communication costs two events and a glance at its links. Only where their full rates do not
// fit is anybody's share worked out.

#include "simulator/modes/progress.h"

#include "core/base/check.h"

#include <algorithm>

namespace sextant {

namespace {

// Closed forms already share rails and up-links among equal groups, which fill them exactly. But
// durations are whole picoseconds, so together short ones may ask for a little more than there is.
constexpr double kFits = 1 + 1e-4;

}  // namespace

Progress::Progress(const Tape& tape, const LinkDemands& demands, const NetworkModel& network,
                   std::span<const OverlapShares> shares, Completions& completions)
    : tape_(tape),
      demands_(demands),
      network_(network),
      completions_(completions),
      communications_(tape.meetings.size()),
      known_duration_(tape.costs.size()),
      uses_(demands.capacities.size()),
      solver_(demands.capacities) {
  const bool has_overlap = std::any_of(shares.begin(), shares.end(), [](const OverlapShares& one) {
    return one != OverlapShares();
  });
  if (has_overlap) {
    places_.resize(tape.ranks.size());
    for (std::size_t place = 0; place < places_.size(); ++place)
      places_[place].shares = shares[place];
  }
  const bool has_loads = std::any_of(demands.distinct.begin(), demands.distinct.end(),
                                     [](const LinkDemand& one) { return !one.loads.empty(); });
  has_events_ = has_overlap || has_loads;
}

bool Progress::is_void(const Payload& payload) const {
  switch (payload.kind) {
    case Kind::kBeginKernel:
    case Kind::kBeginCommunication:
      return false;
    case Kind::kKernel:
      return payload.version != places_[index(payload.id)].version;
    case Kind::kCommunication:
      return payload.version != communications_[MeetingId(payload.id)].version;
  }
  return false;
}

bool Progress::advance() {
  for (;;) {
    while (!queue_.empty() && is_void(queue_.top().payload)) queue_.pop();
    // What begins and ends at one time changes the shares once.
    if (!is_solved_ && (queue_.empty() || queue_.top().time > now_))
      share_links();
    else
      break;
  }
  if (queue_.empty()) return false;
  const auto event = queue_.pop();
  ++events_;
  now_ = event.time;
  switch (event.payload.kind) {
    case Kind::kBeginKernel:
      start_kernel(event.payload.id);
      break;
    case Kind::kKernel:
      end_kernel(event.payload.id);
      break;
    case Kind::kBeginCommunication:
      start(MeetingId(event.payload.id));
      break;
    case Kind::kCommunication:
      go_on(MeetingId(event.payload.id));
      break;
  }
  return true;
}

// ---------------------------------------------------------------- communications

void Progress::begin_communication(MeetingId meeting, Time at) {
  find_endings(meeting, at);
  if (has_events_) {
    queue_.push(at, {Kind::kBeginCommunication, meeting.value, 0});
    return;
  }
  for (const Ending& ending : communications_[meeting].endings)
    completions_.completed(ending.entry, at + ending.after);
}

// When each member would be over alone, after the last arrival.
void Progress::find_endings(MeetingId m, Time at) {
  const TapeMeeting& meeting = tape_.meetings[m];
  std::vector<Ending>& endings = communications_[m].endings;
  endings.clear();
  const auto entries = std::span(tape_.meeting_entries)
                           .subspan(index(meeting.first_entry), index(meeting.num_entries));
  for (const TapeCallId c : meeting.calls()) {
    const TapeCall& call = tape_.calls[c];
    const CollectiveCost& cost = tape_.costs[call.cost];
    if (network_.completes_together()) {
      std::optional<Duration>& known = known_duration_[call.cost];
      if (!known) known = network_.duration(cost);
      for (const std::int32_t e : entries)
        if (tape_.entries[index(e)].call == c) endings.push_back({*known, e});
      continue;
    }
    arrivals_.resize(index(call.num_members));
    done_.resize(arrivals_.size());
    for (std::int32_t i = 0; i < call.num_members; ++i)
      arrivals_[index(i)] = completions_.arrival_of(tape_.entry_of(call, i));
    network_.complete(cost, arrivals_, done_);
    for (const std::int32_t e : entries) {
      if (tape_.entries[index(e)].call != c) continue;
      const Time end = done_[index(tape_.entries[index(e)].member)];
      require(end >= at, ErrorCode::kUsage,
              "timed mode: the network model ends a member {} ps before the last has arrived",
              (at - end).value);
      endings.push_back({end - at, e});
    }
  }
  std::sort(endings.begin(), endings.end());
}

void Progress::start(MeetingId m) {
  Communication& communication = communications_[m];
  communication.next = 0;
  communication.fluid = Fluid(now_);
  communication.kernels = 0;
  communication.share = 1;
  if (!places_.empty())
    for (const Ending& ending : communication.endings) {
      const std::int32_t p = tape_.entries[index(ending.entry)].place;
      Place& place = places_[index(p)];
      place.meetings.push_back(m);
      communication.share = std::min(communication.share, place.shares.communication);
      if (place.kernel >= 0) ++communication.kernels;
      set_kernel_rate(p);
    }
  communication.fluid.set_rate(now_, alone(communication));
  enter_links(m);
  expect(m);
}

void Progress::go_on(MeetingId m) {
  Communication& communication = communications_[m];
  if (communication.awaits_flow && communication.fluid.reaches(demand_of(m).latency) <= now_)
    join(m);
  // Members that leave change the rate: who is over now is known before the first does.
  std::size_t last = communication.next;
  while (last < communication.endings.size() &&
         communication.fluid.reaches(communication.endings[last].after) <= now_)
    ++last;
  while (communication.next < last) {
    const std::int32_t entry = communication.endings[communication.next++].entry;
    const bool is_over = communication.next == communication.endings.size();
    if (is_over) {
      ++communication.version;
      leave_links(m);
    }
    if (!places_.empty()) leave_places(m, entry);
    completions_.completed(entry, now_);
    if (is_over) return;
  }
  expect(m);
}

void Progress::expect(MeetingId m) {
  Communication& communication = communications_[m];
  Time at = communication.fluid.reaches(communication.endings[communication.next].after);
  if (communication.awaits_flow)
    at = std::min(at, communication.fluid.reaches(demand_of(m).latency));
  queue_.push(std::max(at, now_), {Kind::kCommunication, m.value, ++communication.version});
}

// ---------------------------------------------------------------- links

void Progress::enter_links(MeetingId m) {
  const LinkDemand& demand = demand_of(m);
  if (demand.loads.empty()) return;
  const std::int64_t crowded_before = crowded_;
  for (const FlowLoad& on : demand.loads) {
    Use& use = uses_[index(on.link)];
    const double most = demands_.capacities[index(on.link)] * kFits;
    const bool was_crowded = use.rate > most;
    ++use.users;
    use.rate += on.load * demand.full_rate;
    crowded_ += static_cast<int>(use.rate > most) - static_cast<int>(was_crowded);
  }
  Communication& communication = communications_[m];
  communication.position = static_cast<std::int32_t>(flowing_.size());
  flowing_.push_back(m);
  if (crowded_ == 0) return;
  if (crowded_before > 0) {
    contend(m);
    return;
  }
  for (const MeetingId other : flowing_)
    if (communications_[other].flow_class < 0) contend(other);
}

void Progress::leave_links(MeetingId m) {
  const LinkDemand& demand = demand_of(m);
  if (demand.loads.empty()) return;
  for (const FlowLoad& on : demand.loads) {
    Use& use = uses_[index(on.link)];
    const double most = demands_.capacities[index(on.link)] * kFits;
    const bool was_crowded = use.rate > most;
    use.rate = --use.users == 0 ? 0 : use.rate - on.load * demand.full_rate;
    crowded_ += static_cast<int>(use.rate > most) - static_cast<int>(was_crowded);
  }
  Communication& communication = communications_[m];
  const MeetingId last = flowing_.back();
  flowing_[index(communication.position)] = last;
  communications_[last].position = communication.position;
  flowing_.pop_back();
  communication.awaits_flow = false;
  if (communication.flow_class >= 0) leave_class(m);
}

// From its first byte on, it has its share of links only.
void Progress::contend(MeetingId m) {
  Communication& communication = communications_[m];
  if (communication.fluid.reaches(demand_of(m).latency) <= now_) {
    join(m);
  } else if (!communication.awaits_flow) {
    communication.awaits_flow = true;
    expect(m);
  }
}

void Progress::join(MeetingId m) {
  Communication& communication = communications_[m];
  const LinkDemand& demand = demand_of(m);
  communication.awaits_flow = false;
  communication.flow_class = solver_.add(demand.loads, demand.full_rate * alone(communication));
  const std::size_t c = index(communication.flow_class);
  if (c >= of_class_.size()) of_class_.resize(c + 1);
  of_class_[c].push_back(m);
  joined_.push_back(m);
  is_solved_ = false;
}

void Progress::leave_class(MeetingId m) {
  Communication& communication = communications_[m];
  std::erase(of_class_[index(communication.flow_class)], m);
  solver_.remove(communication.flow_class);
  communication.flow_class = -1;
  is_solved_ = false;
}

void Progress::share_links() {
  solver_.solve();
  is_solved_ = true;
  for (const std::int32_t c : solver_.changed())
    for (const MeetingId m : of_class_[index(c)]) take_share(m);
  for (const MeetingId m : joined_)
    if (communications_[m].flow_class >= 0) take_share(m);
  joined_.clear();
}

void Progress::take_share(MeetingId m) {
  Communication& communication = communications_[m];
  const double rate = solver_.rate(communication.flow_class);
  const double most = demand_of(m).full_rate;
  const double share = rate >= most * alone(communication) ? alone(communication) : rate / most;
  if (share == communication.fluid.rate()) return;
  communication.fluid.set_rate(now_, share);
  expect(m);
}

// ---------------------------------------------------------------- kernels

void Progress::set_share(MeetingId m) {
  Communication& communication = communications_[m];
  if (communication.share == 1) return;
  if (communication.flow_class >= 0) {
    leave_class(m);
    join(m);
    return;
  }
  if (alone(communication) == communication.fluid.rate()) return;
  communication.fluid.set_rate(now_, alone(communication));
  expect(m);
}

void Progress::begin_kernel(std::int32_t entry, Time at, Duration duration) {
  const std::int32_t p = tape_.entries[index(entry)].place;
  Place& place = places_[index(p)];
  place.next_kernel = entry;
  place.duration = duration;
  queue_.push(at, {Kind::kBeginKernel, p, 0});
}

void Progress::start_kernel(std::int32_t p) {
  Place& place = places_[index(p)];
  place.kernel = place.next_kernel;
  place.fluid = Fluid(now_);
  for (const MeetingId m : place.meetings) {
    Communication& communication = communications_[m];
    if (communication.kernels++ == 0) set_share(m);
  }
  if (!place.meetings.empty()) place.fluid.set_rate(now_, place.shares.compute);
  queue_.push(place.fluid.reaches(place.duration), {Kind::kKernel, p, ++place.version});
}

void Progress::end_kernel(std::int32_t p) {
  Place& place = places_[index(p)];
  const std::int32_t entry = std::exchange(place.kernel, -1);
  for (const MeetingId m : place.meetings) {
    Communication& communication = communications_[m];
    if (--communication.kernels == 0) set_share(m);
  }
  completions_.completed(entry, now_);
}

// After communications have come or gone.
void Progress::set_kernel_rate(std::int32_t p) {
  Place& place = places_[index(p)];
  if (place.kernel < 0) return;
  const double rate = place.meetings.empty() ? 1.0 : place.shares.compute;
  if (rate == place.fluid.rate()) return;
  place.fluid.set_rate(now_, rate);
  queue_.push(std::max(now_, place.fluid.reaches(place.duration)),
              {Kind::kKernel, p, ++place.version});
}

void Progress::leave_places(MeetingId m, std::int32_t entry) {
  const std::int32_t p = tape_.entries[index(entry)].place;
  Place& place = places_[index(p)];
  std::erase(place.meetings, m);
  Communication& communication = communications_[m];
  if (place.kernel >= 0 && --communication.kernels == 0 &&
      communication.next < communication.endings.size())
    set_share(m);
  set_kernel_rate(p);
}

}  // namespace sextant
