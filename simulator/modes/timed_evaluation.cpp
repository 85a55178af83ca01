// Queues and hosts go on as far as they can; who misses an end is woken by it. Ends that nothing
// can change are known, and passed on, before their time: only begins and ends of communications
// that may contend, and of kernels that may be slowed, take events.

#include "simulator/modes/timed_evaluation.h"

#include "actor/tapes/launch_time.h"
#include "core/base/at.h"
#include "core/base/check.h"

#include <algorithm>
#include <utility>

namespace sextant {

namespace {

constexpr Time kPending(-1);

TapeOptions with_steps(TapeOptions options, std::int64_t steps) {
  options.steps = steps;
  return options;
}

class TimedEvaluation final : private Completions {
 public:
  TimedEvaluation(const Tape& tape, std::span<const Duration> durations, const CostModel& cost,
                  const NetworkModel& network, const LinkDemands& demands,
                  std::span<const OverlapShares> shares, const TapeOptions& options,
                  std::int64_t following)
      : tape_(tape),
        durations_(durations),
        options_(with_steps(options, options.steps + following)),
        reported_(options.steps),
        launch_cost_(cost.launch_cost()),
        progress_(tape, demands, network, shares, *this),
        num_slots_(static_cast<std::int32_t>(options.run_ahead_steps + 1)),
        slots_(tape.entries.size() * at(num_slots_)),
        hosts_(tape.ranks.size()),
        queues_(tape.ranks.size() * kNumQueueRoles),
        meetings_(tape.meetings.size()),
        groups_(tape.entries.size()),
        step_end_(static_cast<std::size_t>(options_.steps)),
        place_end_(static_cast<std::size_t>(options_.steps) * tape.ranks.size()) {
    list_entries();
    for (const MeetingId m : meetings_.keys()) meetings_[m].missing = tape.meetings[m].num_entries;
  }

  TimedTimes run() {
    for (std::size_t place = 0; place < hosts_.size(); ++place) wake_host(place);
    do work_off();
    while (progress_.advance());
    for (std::size_t place = 0; place < hosts_.size(); ++place)
      require(hosts_[place].step == options_.steps, ErrorCode::kInternal,
              "timed mode: rank {} is stuck in step {}", tape_.ranks[place].value,
              hosts_[place].step);
    TimedTimes result;
    result.events = progress_.events();
    step_end_.resize(static_cast<std::size_t>(reported_));
    place_end_.resize(step_end_.size() * hosts_.size());
    result.times.step_end = std::move(step_end_);
    result.place_end = std::move(place_end_);
    // Still there: the steps after it have other slots.
    const auto last_slot = static_cast<std::int32_t>((reported_ - 1) % num_slots_);
    for (std::size_t e = 0; e < tape_.entries.size(); ++e) {
      const Slot& slot = slot_of(static_cast<std::int32_t>(e), last_slot);
      result.times.begin.push_back(slot.begin);
      result.times.end.push_back(slot.end);
      result.times.issued.push_back(slot.issued);
    }
    return result;
  }

 private:
  // One entry in one of the steps that may be in flight.
  struct Slot {
    Time issued, begin;
    Time end = kPending;
    std::int32_t first_waiter = -1;  // a queue; others follow by Queue::next_waiter
  };
  struct Host {
    std::vector<std::int32_t> entries;  // of one step, as issued
    std::size_t cursor = 0, admitted = 0;
    std::int64_t step = 0;  // being issued
    std::int32_t slot = 0;  // of that step
    bool is_open = false;   // the step has begun
    HostChain chain;
    std::vector<std::int64_t> missing;  // entries that are not over, by slot
    std::vector<Time> last_end;         // likewise
    std::int32_t awaited_queue = -1;    // for its window
    bool awaits_step = false;
  };
  struct Queue {
    std::vector<std::int32_t> entries;  // of one step
    std::size_t cursor = 0;
    std::int64_t step = 0;    // of the cursor
    std::int32_t slot = 0;    // of that step
    std::int64_t issued = 0;  // and not begun
    bool is_busy = false;     // with something that will be told to be over
    bool is_waiting = false;  // for the end of an entry
    Time free;
    std::int32_t next_waiter = -1;
    std::int64_t launched = 0, over = 0;  // that open a launch
    std::vector<Time> ends;               // ring of the last `window` of them
  };
  struct Meeting {
    std::int32_t missing = 0;
    Time latest;
  };
  // By the first entry of a launch group.
  struct Group {
    std::int32_t waiting = 0, missing = 0;  // members that are not ready, not over
    Time start, end;                        // the latest so far
  };

  std::size_t num_queues() const { return queues_.size(); }
  static std::size_t queue_index(const TapeEntry& entry) {
    return at(entry.place) * kNumQueueRoles + static_cast<std::size_t>(entry.queue);
  }
  // Steps in flight take turns with the slots; divisions are slow, so hosts and queues count along.
  std::int32_t next_slot(std::int32_t slot) const { return slot + 1 == num_slots_ ? 0 : slot + 1; }
  std::int32_t slot_before(std::int32_t slot, std::int64_t steps) const {
    const auto before = slot - static_cast<std::int32_t>(steps);
    return before < 0 ? before + num_slots_ : before;
  }
  Slot& slot_of(std::int32_t e, std::int32_t slot) {
    return slots_[at(slot) * tape_.entries.size() + at(e)];
  }
  const Slot& slot_of(std::int32_t e, std::int32_t slot) const {
    return slots_[at(slot) * tape_.entries.size() + at(e)];
  }

  void list_entries() {
    for (std::size_t e = 0; e < tape_.entries.size(); ++e) {
      const TapeEntry& entry = tape_.entries[e];
      hosts_[at(entry.place)].entries.push_back(static_cast<std::int32_t>(e));
      queues_[queue_index(entry)].entries.push_back(static_cast<std::int32_t>(e));
      if (entry.launch_group < 0) continue;
      ++groups_[at(entry.launch_group)].waiting;
      ++groups_[at(entry.launch_group)].missing;
    }
    for (Host& host : hosts_) {
      host.missing.resize(static_cast<std::size_t>(num_slots_));
      host.last_end.resize(host.missing.size());
    }
    for (Queue& queue : queues_) {
      const auto launches = static_cast<std::int64_t>(queue.entries.size()) * options_.steps;
      if (launches > options_.window) queue.ends.resize(static_cast<std::size_t>(options_.window));
    }
  }

  // ------------------------------------------------------------ work list

  void wake_queue(std::size_t q) { awake_.push_back(static_cast<std::int32_t>(q)); }
  void wake_host(std::size_t place) {
    awake_.push_back(static_cast<std::int32_t>(num_queues() + place));
  }
  void work_off() {
    while (!awake_.empty()) {
      const std::size_t next = at(awake_.back());
      awake_.pop_back();
      if (next < num_queues())
        run_queue(next);
      else
        run_host(next - num_queues());
    }
  }

  // ------------------------------------------------------------ host

  // Issues until the step before last, or a window, holds it up.
  void run_host(std::size_t place) {
    Host& host = hosts_[place];
    host.awaits_step = false;
    host.awaited_queue = -1;
    while (host.step < options_.steps) {
      if (!host.is_open && !open_step(host)) return;
      while (host.cursor < host.entries.size())
        if (!issue(host)) return;
      host.cursor = host.admitted = 0;
      host.is_open = false;
      ++host.step;
      host.slot = next_slot(host.slot);
    }
  }

  bool open_step(Host& host) {
    if (host.step >= options_.run_ahead_steps) {
      const std::size_t before = at(slot_before(host.slot, options_.run_ahead_steps));
      if (host.missing[before] > 0) {
        host.awaits_step = true;
        return false;
      }
      host.chain.wait_for(host.last_end[before]);
    }
    const std::size_t slot = at(host.slot);
    host.missing[slot] = static_cast<std::int64_t>(host.entries.size());
    host.last_end[slot] = Time();
    for (const std::int32_t e : host.entries) slot_of(e, host.slot).end = kPending;
    host.is_open = true;
    return true;
  }

  // The next entry, or launch group.
  bool issue(Host& host) {
    const std::int32_t group = tape_.entries[at(host.entries[host.cursor])].launch_group;
    std::size_t end = host.cursor + 1;
    while (group >= 0 && end < host.entries.size() &&
           tape_.entries[at(host.entries[end])].launch_group == group)
      ++end;
    for (; host.admitted < end; ++host.admitted)
      if (!admit(host, tape_.entries[at(host.entries[host.admitted])])) return false;
    const Time issued = host.chain.launch(launch_cost_);
    for (; host.cursor < end; ++host.cursor) {
      const std::int32_t e = host.entries[host.cursor];
      slot_of(e, host.slot).issued = issued;
      const std::size_t q = queue_index(tape_.entries[at(e)]);
      if (queues_[q].issued++ == 0 && !queues_[q].is_busy) wake_queue(q);
    }
    return true;
  }

  // Waits for the window of the entry's queue.
  bool admit(Host& host, const TapeEntry& entry) {
    if (!entry.opens_launch) return true;
    const std::size_t q = queue_index(entry);
    Queue& queue = queues_[q];
    const std::int64_t awaited = queue.launched - options_.window;
    if (awaited >= queue.over) {
      host.awaited_queue = static_cast<std::int32_t>(q);
      return false;
    }
    ++queue.launched;
    if (awaited >= 0)
      host.chain.wait_for(queue.ends[static_cast<std::size_t>(awaited % options_.window)]);
    return true;
  }

  // ------------------------------------------------------------ queues

  // Begins what can begin.
  void run_queue(std::size_t q) {
    Queue& queue = queues_[q];
    while (!queue.is_busy && !queue.is_waiting && queue.issued > 0) {
      const std::int32_t e = queue.entries[queue.cursor];
      const TapeEntry& entry = tape_.entries[at(e)];
      Slot& slot = slot_of(e, queue.slot);
      Time ready = std::max(queue.free, slot.issued);
      if (entry.launch_group >= 0) {
        begin_in_group(q, queue, entry.launch_group, ready);
        continue;
      }
      if (!find_ready(q, queue, entry, ready)) return;
      --queue.issued;
      slot.begin = ready;
      if (!entry.meeting.is_valid()) {
        compute(e, entry, queue, ready);
      } else {
        queue.is_busy = true;
        arrive(entry.meeting, ready);
      }
    }
  }

  // Raises `ready` to the ends that the entry waits for; false: one is not known yet, and the queue
  // waits for it.
  bool find_ready(std::size_t q, Queue& queue, const TapeEntry& entry, Time& ready) {
    for (std::int32_t w = entry.first_wait; w < entry.first_wait + entry.num_waits; ++w) {
      const TapeWait& wait = tape_.waits[at(w)];
      if (wait.lag > queue.step) continue;  // of a step that never was
      Slot& awaited = slot_of(wait.entry, slot_before(queue.slot, wait.lag));
      if (awaited.end == kPending) {
        queue.is_waiting = true;
        queue.next_waiter = std::exchange(awaited.first_waiter, static_cast<std::int32_t>(q));
        return false;
      }
      ready = std::max(ready, awaited.end);
    }
    return true;
  }

  // All members of the group on this queue, which follow each other, begin with those on others.
  void begin_in_group(std::size_t q, Queue& queue, std::int32_t first, Time ready) {
    std::size_t end = queue.cursor;
    for (; end < queue.entries.size(); ++end) {
      const TapeEntry& entry = tape_.entries[at(queue.entries[end])];
      if (entry.launch_group != first) break;
      if (!find_ready(q, queue, entry, ready)) return;
    }
    const auto members = static_cast<std::int32_t>(end - queue.cursor);
    queue.issued -= members;
    queue.is_busy = true;
    Group& group = groups_[at(first)];
    group.start = std::max(group.start, ready);
    group.waiting -= members;
    if (group.waiting > 0) return;
    const std::int32_t slot = queue.slot;
    const Time start = std::exchange(group.start, Time());
    const std::int32_t last = end_of_group(first);
    group.waiting = last - first;
    for (std::int32_t i = first; i < last; ++i) slot_of(i, slot).begin = start;
    for (std::int32_t i = first; i < last; ++i) arrive(tape_.entries[at(i)].meeting, start);
  }

  void compute(std::int32_t e, const TapeEntry& entry, Queue& queue, Time begin) {
    const Duration duration = jittered(durations_[at(e)], options_.jitter, options_.seed,
                                       entry.rank, entry.run, queue.step);
    if (entry.queue == QueueRole::kCompute && progress_.has_overlap(entry.place)) {
      queue.is_busy = true;
      progress_.begin_kernel(e, begin, duration);
    } else {
      finish(e, entry, queue, begin + duration);
    }
  }

  std::int32_t end_of_group(std::int32_t first) const {
    std::int32_t last = first;
    while (at(last) < tape_.entries.size() && tape_.entries[at(last)].launch_group == first) ++last;
    return last;
  }

  void arrive(MeetingId m, Time when) {
    Meeting& meeting = meetings_[m];
    meeting.latest = std::max(meeting.latest, when);
    if (--meeting.missing > 0) return;
    meeting.missing = tape_.meetings[m].num_entries;
    progress_.begin_communication(m, std::exchange(meeting.latest, Time()));
  }

  Time arrival_of(std::int32_t e) const override {
    return slot_of(e, queues_[queue_index(tape_.entries[at(e)])].slot).begin;
  }

  void completed(std::int32_t e, Time end) override {
    const TapeEntry& entry = tape_.entries[at(e)];
    if (entry.launch_group < 0) {
      end_busy(e, end);
      return;
    }
    Group& group = groups_[at(entry.launch_group)];
    group.end = std::max(group.end, end);
    if (--group.missing > 0) return;
    const Time group_end = std::exchange(group.end, Time());
    const std::int32_t last = end_of_group(entry.launch_group);
    group.missing = last - entry.launch_group;
    for (std::int32_t i = entry.launch_group; i < last; ++i) end_busy(i, group_end);
  }

  void end_busy(std::int32_t e, Time end) {
    const TapeEntry& entry = tape_.entries[at(e)];
    const std::size_t q = queue_index(entry);
    queues_[q].is_busy = false;
    finish(e, entry, queues_[q], end);
    wake_queue(q);
  }

  // The entry at the queue's cursor is over.
  void finish(std::int32_t e, const TapeEntry& entry, Queue& queue, Time end) {
    Slot& slot = slot_of(e, queue.slot);
    slot.end = end;
    queue.free = end;
    Host& host = hosts_[at(entry.place)];
    if (entry.opens_launch) {
      if (!queue.ends.empty())
        queue.ends[static_cast<std::size_t>(queue.over % options_.window)] = end;
      ++queue.over;
      if (host.awaited_queue == static_cast<std::int32_t>(queue_index(entry)))
        wake_host(at(entry.place));
    }
    const std::size_t number = at(queue.slot);
    host.last_end[number] = std::max(host.last_end[number], end);
    if (--host.missing[number] == 0) {
      Time& step_end = step_end_[static_cast<std::size_t>(queue.step)];
      step_end = std::max(step_end, host.last_end[number]);
      place_end_[static_cast<std::size_t>(queue.step) * hosts_.size() + at(entry.place)] =
          host.last_end[number];
      if (host.awaits_step) wake_host(at(entry.place));
    }
    for (std::int32_t q = std::exchange(slot.first_waiter, -1); q >= 0;
         q = std::exchange(queues_[at(q)].next_waiter, -1)) {
      queues_[at(q)].is_waiting = false;
      wake_queue(at(q));
    }
    if (++queue.cursor == queue.entries.size()) {
      queue.cursor = 0;
      ++queue.step;
      queue.slot = next_slot(queue.slot);
    }
  }

  const Tape& tape_;
  std::span<const Duration> durations_;
  TapeOptions options_;    // with the steps that follow
  std::int64_t reported_;  // steps
  Duration launch_cost_;
  Progress progress_;
  std::int32_t num_slots_;
  std::vector<Slot> slots_;  // by step in flight and entry
  std::vector<Host> hosts_;
  std::vector<Queue> queues_;
  Table<MeetingId, Meeting> meetings_;
  std::vector<Group> groups_;
  std::vector<Time> step_end_, place_end_;
  std::vector<std::int32_t> awake_;  // queues, then hosts
};

}  // namespace

TimedTimes evaluate_timed(const Tape& tape, std::span<const Duration> durations,
                          const CostModel& cost, const NetworkModel& network,
                          const LinkDemands& demands, std::span<const OverlapShares> shares,
                          const TapeOptions& options, std::int64_t following) {
  require(durations.size() == tape.entries.size(), ErrorCode::kUsage,
          "{} durations for {} tape entries", durations.size(), tape.entries.size());
  require(options.steps >= 1 && options.window >= 1 && options.run_ahead_steps >= 1,
          ErrorCode::kUsage, "steps {}, window {}, run-ahead {}: all must be at least 1",
          options.steps, options.window, options.run_ahead_steps);
  require(shares.empty() || shares.size() == tape.ranks.size(), ErrorCode::kUsage,
          "overlap shares of {} ranks, {} are simulated", shares.size(), tape.ranks.size());
  require(following >= 0 && following <= options.run_ahead_steps, ErrorCode::kUsage,
          "{} steps after those reported: 0 to {}", following, options.run_ahead_steps);
  return TimedEvaluation(tape, durations, cost, network, demands, shares, options, following).run();
}

}  // namespace sextant
