// Max-plus arithmetic over a tape: one pass per step, no event queue.
#include "actor/launch_time.h"
#include "actor/tape.h"
#include "core/check.h"

#include <algorithm>
#include <map>

namespace sextant {
namespace {

std::size_t at(std::int32_t index) { return static_cast<std::size_t>(index); }

// One queue of one rank: when it is free, and the ends of its last `window` launches.
struct QueueTime {
  Time free;
  std::vector<Time> ends;  // ring
  std::size_t next = 0;
  std::int64_t launched = 0;
};

class Evaluation {
 public:
  Evaluation(const Tape& tape, std::span<const Duration> durations, const CostModel& cost,
             const NetworkModel& network, const TapeOptions& options)
      : tape_(tape),
        durations_(durations),
        network_(network),
        options_(options),
        launch_cost_(cost.launch_cost()),
        hosts_(tape.ranks.size()),
        queues_(tape.ranks.size() * kNumQueueRoles),
        rank_ends_(tape.ranks.size() * static_cast<std::size_t>(options.run_ahead_steps)),
        begin_(tape.entries.size()),
        end_(tape.entries.size()),
        end_before_(tape.entries.size()),
        issued_(tape.entries.size()),
        completion_(tape.entries.size()),
        missing_members_(tape.meetings.size()),
        missing_in_group_(tape.entries.size()) {
    size_windows();
  }

  TapeTimes run() {
    TapeTimes times;
    for (step_ = 0; step_ < options_.steps; ++step_) {
      begin_step();
      for (std::size_t e = 0; e < tape_.entries.size();) e += launch(e);
      times.step_end.push_back(end_step());
    }
    times.begin = std::move(begin_);
    times.end = std::move(end_before_);
    times.issued = std::move(issued_);
    return times;
  }

 private:
  static std::size_t queue_index(const TapeEntry& entry) {
    return at(entry.place) * kNumQueueRoles + static_cast<std::size_t>(entry.queue);
  }
  QueueTime& queue_of(const TapeEntry& entry) { return queues_[queue_index(entry)]; }

  // A window that no run of this length fills needs no ring.
  void size_windows() {
    std::vector<std::int64_t> launches(queues_.size());
    for (const TapeEntry& entry : tape_.entries) {
      launches[queue_index(entry)] += entry.opens_launch ? 1 : 0;
    }
    for (std::size_t q = 0; q < queues_.size(); ++q) {
      if (launches[q] * options_.steps > options_.window) {
        queues_[q].ends.resize(static_cast<std::size_t>(options_.window));
      }
    }
  }

  // The host waits for the step that is `run_ahead_steps` back; its ends are replaced by this
  // one's.
  void begin_step() {
    const auto slot = static_cast<std::size_t>(step_ % options_.run_ahead_steps);
    rank_end_ = rank_ends_.data() + slot * hosts_.size();
    for (std::size_t place = 0; place < hosts_.size(); ++place) {
      Time& ends = rank_end_[place];
      hosts_[place].wait_for(ends);
      ends = Time();
    }
    for (std::size_t m = 0; m < tape_.meetings.size(); ++m) {
      missing_members_[m] = tape_.meetings[m].num_entries;
    }
  }

  Time end_step() {
    Time last;
    for (std::size_t place = 0; place < hosts_.size(); ++place) {
      last = std::max(last, rank_end_[place]);
    }
    std::swap(end_, end_before_);
    return last;
  }

  Time ready_time(const TapeEntry& entry) {
    Time ready = queue_of(entry).free;
    for (std::int32_t w = entry.first_wait; w < entry.first_wait + entry.num_waits; ++w) {
      const TapeWait& wait = tape_.waits[at(w)];
      // In the first step the ends of the step before are zero: void.
      ready = std::max(ready, wait.lag == 0 ? end_[at(wait.entry)] : end_before_[at(wait.entry)]);
    }
    return ready;
  }

  void wait_for_window(const TapeEntry& entry) {
    QueueTime& queue = queue_of(entry);
    if (!entry.opens_launch || queue.launched++ < options_.window) return;
    hosts_[at(entry.place)].wait_for(queue.ends[queue.next]);
  }

  // The entry, or the launch group it begins; returns how many entries.
  std::size_t launch(std::size_t e) {
    const TapeEntry& entry = tape_.entries[e];
    if (entry.meeting < 0) {
      compute(e, entry);
      return 1;
    }
    std::size_t end = e + 1;
    if (entry.launch_group >= 0) {
      while (end < tape_.entries.size() && tape_.entries[end].launch_group == entry.launch_group) {
        ++end;
      }
    }
    for (std::size_t i = e; i < end; ++i) wait_for_window(tape_.entries[i]);
    Time start = hosts_[at(entry.place)].launch(launch_cost_);
    for (std::size_t i = e; i < end; ++i) issued_[i] = start;
    for (std::size_t i = e; i < end; ++i) start = std::max(start, ready_time(tape_.entries[i]));
    missing_in_group_[e] = static_cast<std::int32_t>(end - e);
    for (std::size_t i = e; i < end; ++i) begin_[i] = start;
    for (std::size_t i = e; i < end; ++i) arrive(tape_.entries[i].meeting);
    return end - e;
  }

  // Computation is never in a launch group.
  void compute(std::size_t e, const TapeEntry& entry) {
    wait_for_window(entry);
    issued_[e] = hosts_[at(entry.place)].launch(launch_cost_);
    const Time start = std::max(issued_[e], ready_time(entry));
    begin_[e] = start;
    finish(e, start + jittered(durations_[e], options_.jitter, options_.seed, entry.rank, entry.run,
                               step_));
  }

  void arrive(std::int32_t m) {
    if (--missing_members_[at(m)] > 0) return;
    const TapeMeeting& meeting = tape_.meetings[at(m)];
    for (std::int32_t c = meeting.first_call; c < meeting.first_call + meeting.num_calls; ++c) {
      const TapeCall& call = tape_.calls[at(c)];
      const auto size = at(call.num_members);
      if (arrivals_.size() < size) {
        arrivals_.resize(size);
        done_.resize(size);
      }
      for (std::size_t i = 0; i < size; ++i) {
        arrivals_[i] = begin_[at(tape_.member_entries[at(call.first_member) + i])];
      }
      network_.complete(tape_.costs[at(call.cost)], std::span(arrivals_).first(size),
                        std::span(done_).first(size));
      for (std::int32_t e = meeting.first_entry; e < meeting.first_entry + meeting.num_entries;
           ++e) {
        const std::int32_t member = tape_.meeting_entries[at(e)];
        const TapeEntry& entry = tape_.entries[at(member)];
        if (entry.call == c) completion_[at(member)] = done_[at(entry.member)];
      }
    }
    for (std::int32_t e = meeting.first_entry; e < meeting.first_entry + meeting.num_entries; ++e) {
      const std::int32_t member = tape_.meeting_entries[at(e)];
      complete(at(member), completion_[at(member)]);
    }
  }

  // One member is over; the launch is when all of its members are.
  void complete(std::size_t e, Time end) {
    const TapeEntry& entry = tape_.entries[e];
    if (entry.launch_group < 0) {
      finish(e, end);
      return;
    }
    completion_[e] = end;
    const std::size_t first = at(entry.launch_group);
    if (--missing_in_group_[first] > 0) return;
    std::size_t last = first;
    Time group_end;
    for (; last < tape_.entries.size() && tape_.entries[last].launch_group == entry.launch_group;
         ++last) {
      group_end = std::max(group_end, completion_[last]);
    }
    for (std::size_t i = first; i < last; ++i) finish(i, group_end);
  }

  void finish(std::size_t e, Time end) {
    const TapeEntry& entry = tape_.entries[e];
    end_[e] = end;
    QueueTime& queue = queue_of(entry);
    queue.free = end;
    if (entry.opens_launch && !queue.ends.empty()) {
      queue.ends[queue.next] = end;
      if (++queue.next == queue.ends.size()) queue.next = 0;
    }
    Time& rank_end = rank_end_[at(entry.place)];
    rank_end = std::max(rank_end, end);
  }

  const Tape& tape_;
  std::span<const Duration> durations_;
  const NetworkModel& network_;
  const TapeOptions& options_;
  Duration launch_cost_;
  std::int64_t step_ = 0;

  std::vector<HostChain> hosts_;   // by place
  std::vector<QueueTime> queues_;  // by place and queue
  std::vector<Time> rank_ends_;    // by step modulo run_ahead_steps, and place
  Time* rank_end_ = nullptr;       // of this step
  std::vector<Time> begin_, end_, end_before_;
  std::vector<Time> issued_;
  std::vector<Time> completion_;                // of members, before their launch group is over
  std::vector<std::int32_t> missing_members_;   // by meeting
  std::vector<std::int32_t> missing_in_group_;  // by the group's first entry
  std::vector<Time> arrivals_, done_;
};

}  // namespace

std::vector<Duration> entry_durations(const Tape& tape, const PhysicalGraph& graph,
                                      const CostModel& cost) {
  // By colour of the rank and block; then by first actor and number of actors: many runs are one
  // piece of one block.
  std::map<std::int32_t, std::vector<std::vector<std::int64_t>>> known;
  std::vector<std::vector<std::vector<std::int64_t>>*> known_at;  // by place
  for (const Rank rank : tape.ranks) {
    auto& of_colour = known[cost.colour_of(rank)];
    of_colour.resize(graph.blocks.size());
    known_at.push_back(&of_colour);
  }
  std::vector<Duration> durations;
  durations.reserve(tape.entries.size());
  for (const TapeEntry& entry : tape.entries) {
    const RankProgram& program = graph.program_of(entry.rank);
    const Run& run = program.order[entry.run.index()];
    const BlockId block_id = program.instances[run.instance.index()].block;
    const Block& block = graph.blocks[block_id.index()];
    if (entry.meeting >= 0) {
      durations.emplace_back();
      continue;
    }
    const std::size_t actors = block.actors.size();
    std::vector<std::int64_t>& of_block = (*known_at[at(entry.place)])[block_id.index()];
    if (of_block.empty()) of_block.assign(actors * (actors + 1), -1);
    std::int64_t& total = of_block[at(run.first_actor) * (actors + 1) + at(run.num_actors)];
    if (total < 0) {
      total = 0;
      for (std::int32_t a = run.first_actor; a < run.first_actor + run.num_actors; ++a) {
        total += cost.duration_on(entry.rank, block.actors[at(a)].work).value;
      }
    }
    durations.emplace_back(total);
  }
  return durations;
}

TapeTimes evaluate(const Tape& tape, const PhysicalGraph&, std::span<const Duration> durations,
                   const CostModel& cost, const NetworkModel& network, const TapeOptions& options) {
  require(durations.size() == tape.entries.size(), ErrorCode::kUsage,
          "{} durations for {} tape entries", durations.size(), tape.entries.size());
  require(options.steps >= 1 && options.window >= 1 && options.run_ahead_steps >= 1,
          ErrorCode::kUsage, "steps {}, window {}, run-ahead {}: all must be at least 1",
          options.steps, options.window, options.run_ahead_steps);
  return Evaluation(tape, durations, cost, network, options).run();
}

}  // namespace sextant
