// Max-plus arithmetic over a tape: one pass per step, no event queue.
#include "actor/tapes/flat_tape.h"
#include "actor/tapes/jitter.h"
#include "actor/tapes/tape.h"
#include "core/base/at.h"
#include "core/base/check.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <utility>

namespace sextant {
namespace {

// What is the same in every step.
struct Inputs {
  const FlatTape& flat;
  std::span<const Duration> durations;
  Duration launch_cost;
  const NetworkModel& network;
  const TapeOptions& options;
};

// Durations of the calls of a network whose members are over together.
Table<TapeCallId, Duration> call_durations(const Inputs& in) {
  const Tape& tape = *in.flat.tape;
  Table<TapeCostId, Duration> of_cost;
  Table<TapeCallId, Duration> of_call;
  for (const CollectiveCost& cost : tape.costs) of_cost.push_back(in.network.duration(cost));
  for (const TapeCall& call : tape.calls) of_call.push_back(of_cost[call.cost]);
  return of_call;
}

// `kTogether`: the network's members are over together, and all calls of a meeting last equally
// long. `kWindow`: some queue may have as many launches as the window allows.
// More than 200 lines: one pass whose inner loop must see times, queues and waits as members of one
// object; the two parameters leave out what a tape does not need.
template <bool kTogether, bool kWindow>
class Evaluation {
 public:
  Evaluation(const Inputs& in, Table<MeetingId, Duration> meeting_durations)
      : in_(in),
        tape_(*in.flat.tape),
        meeting_durations_(std::move(meeting_durations)),
        durations_(in.durations.data()),
        host_(tape_.ranks.size()),
        queues_(in.flat.place_of_queue.size()),
        rank_ends_(tape_.ranks.size() * static_cast<std::size_t>(in.options.run_ahead_steps)),
        begin_(tape_.entries.size()),
        end_(at(in.flat.nobody()) + 1),
        issued_(tape_.entries.size()) {
    for (std::size_t q = 0; q < queues_.size(); ++q) queues_[q].place = in.flat.place_of_queue[q];
    if (!kTogether || in.flat.has_groups) completion_.resize(tape_.entries.size());
    if (kTogether && !in.flat.sole.empty())
      own_durations_.assign(in.durations.begin(), in.durations.end());
    put_sole_durations();
    if (kWindow) size_windows();
    if (in.options.jitter != 0.0) prepare_jitter();
  }

  TapeTimes run() {
    TapeTimes times;
    times.step_end.reserve(static_cast<std::size_t>(in_.options.steps));
    Duration shift;
    for (std::int64_t step = 0; step < in_.options.steps; ++step) {
      begin_step(step);
      if (const auto period = period_since_last(step); period.has_value()) {
        // This and all later steps repeat the last one, so much later.
        for (; step < in_.options.steps; ++step) {
          times.step_end.push_back(times.step_end.back() + *period);
          shift += *period;
        }
        break;
      }
      pass();
      times.step_end.push_back(end_step());
    }
    end_.resize(tape_.entries.size());
    for (std::vector<Time>* all : {&begin_, &end_, &issued_})
      for (Time& time : *all) time += shift;
    times.begin = std::move(begin_);
    times.end = std::move(end_);
    times.issued = std::move(issued_);
    return times;
  }

 private:
  struct Queue {
    Time free;
    // The ends of the last `window` launches, in a ring; zero before there were as many. kWindow.
    Time* ends = nullptr;
    std::uint32_t next = 0, window = 0;
    std::int32_t place = 0;
  };

  void size_windows() {
    const auto window = static_cast<std::size_t>(in_.options.window);
    const auto fills = [&](std::size_t q) {
      return in_.flat.launches_of_queue[q] * in_.options.steps > in_.options.window;
    };
    std::size_t full = 0;
    for (std::size_t q = 0; q < queues_.size(); ++q) full += fills(q) ? 1 : 0;
    ring_ends_.resize(full * window);
    Time* ends = ring_ends_.data();
    for (std::size_t q = 0; q < queues_.size(); ++q) {
      if (!fills(q)) continue;
      queues_[q].ends = std::exchange(ends, ends + window);
      queues_[q].window = static_cast<std::uint32_t>(window);
    }
  }

  // What nobody else is a member of lasts as long as a kernel does.
  void put_sole_durations() {
    if constexpr (kTogether)
      for (const std::int32_t e : in_.flat.sole)
        own_durations_[at(e)] = meeting_durations_[tape_.entries[at(e)].meeting];
    if (!own_durations_.empty()) durations_ = own_durations_.data();
  }

  void prepare_jitter() {
    own_durations_.resize(tape_.entries.size());
    for (const TapeEntry& entry : tape_.entries) {
      ranks_.push_back(entry.rank.value);
      runs_.push_back(entry.run.value);
    }
  }

  // The host waits for the step that is `run_ahead_steps` back; its ends are replaced by this
  // one's. Ends that this step overwrites before they are waited for are put aside.
  void begin_step(std::int64_t step) {
    const auto slot = static_cast<std::size_t>(step % in_.options.run_ahead_steps);
    rank_end_ = rank_ends_.data() + slot * host_.size();
    for (std::size_t place = 0; place < host_.size(); ++place)
      host_[place] = std::max(host_[place], rank_end_[place]);
    const std::size_t entries = tape_.entries.size();
    for (std::size_t i = 0; i < in_.flat.saved.size(); ++i)
      end_[entries + i] = end_[at(in_.flat.saved[i])];
    if (in_.options.jitter == 0.0) return;
    jitter_durations(in_.durations, ranks_, runs_, in_.options.jitter, in_.options.seed, step,
                     own_durations_);
    put_sole_durations();
  }

  // All that a step depends on is a maximum of sums: if it is what it was for the step before, but
  // all of it later by one period, so is everything that follows.
  std::optional<Duration> period_since_last(std::int64_t step) {
    if (in_.options.jitter != 0.0) return std::nullopt;
    state_.assign(host_.begin(), host_.end());
    for (const Queue& queue : queues_) state_.push_back(queue.free);
    for (const std::int32_t e : in_.flat.seen_later) state_.push_back(end_[at(e)]);
    // What the host waited for before this step is in; this is what it will wait for.
    for (std::int64_t age = 1; age < in_.options.run_ahead_steps && age <= step; ++age) {
      const auto slot = static_cast<std::size_t>((step - age) % in_.options.run_ahead_steps);
      const auto ends = rank_ends_.begin() + static_cast<std::ptrdiff_t>(slot * host_.size());
      state_.insert(state_.end(), ends, ends + static_cast<std::ptrdiff_t>(host_.size()));
    }
    for (const Queue& queue : queues_)
      for (std::size_t i = 0; i < queue.window; ++i)
        state_.push_back(queue.ends[(queue.next + i) % queue.window]);
    std::optional<Duration> period;
    if (state_.size() == state_before_.size() && !state_.empty()) {
      period = state_[0] - state_before_[0];
      for (std::size_t i = 1; i < state_.size() && period.has_value(); ++i)
        if (state_[i] - state_before_[i] != *period) period.reset();
    }
    std::swap(state_, state_before_);
    return period;
  }

  Time end_step() {
    std::fill(rank_end_, rank_end_ + host_.size(), Time());
    Time last;
    for (const Queue& queue : queues_) {
      Time& end = rank_end_[queue.place];
      end = std::max(end, queue.free);
      last = std::max(last, end);
    }
    return last;
  }

  void pass() {
    for (const FlatTape::Op& op : in_.flat.pass()) {
      switch (op.kind) {
        case FlatTape::Op::Kind::kCompute:
          alone(op);
          break;
        case FlatTape::Op::Kind::kTogether:
          together(op);
          break;
        case FlatTape::Op::Kind::kLaunch:
          launch(op);
          break;
        case FlatTape::Op::Kind::kComplete:
          complete(op);
          break;
      }
    }
  }

  // When the launch of this entry alone begins. Hot: by pointers, which the checking standard
  // library leaves alone.
  Time begin_of(std::size_t e, Queue& queue) {
    Time& host = host_.data()[queue.place];
    Time issued = host;
    if constexpr (kWindow)
      if (queue.window > 0) issued = std::max(issued, queue.ends[queue.next]);
    issued_.data()[e] = issued;
    host = issued + in_.launch_cost;
    return ready(e, std::max(issued, queue.free));
  }
  Queue& queue_of(std::size_t e) { return queues_.data()[in_.flat.queue_of.data()[e]]; }

  Time ready(std::size_t e, Time from) const {
    const Time* const ends = end_.data();
    const std::array<std::int32_t, 2> waits = in_.flat.two_waits.data()[e];
    from = std::max(from, ends[waits[0]]);
    if (waits[1] >= 0) return std::max(from, ends[waits[1]]);
    const std::int32_t* const more = in_.flat.more_waits.data() + ~waits[1];
    for (std::int32_t w = 1; w <= more[0]; ++w) from = std::max(from, ends[more[w]]);
    return from;
  }

  void finish(std::size_t e, Queue& queue, Time end) {
    end_.data()[e] = end;
    queue.free = end;
    if constexpr (kWindow) {
      if (queue.window == 0) return;
      queue.ends[queue.next] = end;
      if (++queue.next == queue.window) queue.next = 0;
    }
  }
  void finish(std::size_t e, Time end) { finish(e, queue_of(e), end); }

  void alone(const FlatTape::Op& op) {
    const Duration* const durations = durations_;
    Time* const begins = begin_.data();
    for (std::size_t e = at(op.first); e < at(op.first + op.count); ++e) {
      if constexpr (!kTogether)
        if (const MeetingId m = tape_.entries[e].meeting; m.is_valid()) {
          begin_[e] = begin_of(e, queue_of(e));
          ask_network(m);
          finish(e, completion_[e]);
          continue;
        }
      Queue& queue = queue_of(e);
      const Time begin = begin_of(e, queue);
      begins[e] = begin;
      finish(e, queue, begin + durations[e]);
    }
  }

  void together(const FlatTape::Op& op) {
    const std::size_t first = at(op.first), last = at(op.first + op.count);
    Time end;
    for (std::size_t e = first; e < last; ++e) {
      const Time begin = begin_of(e, queue_of(e));
      begin_[e] = begin;
      end = std::max(end, begin);
    }
    if constexpr (kTogether) {
      end += meeting_durations_[op.meeting];
      for (std::size_t e = first; e < last; ++e) finish(e, end);
    } else {
      ask_network(op.meeting);
      for (std::size_t e = first; e < last; ++e) finish(e, completion_[e]);
    }
  }

  // Members on one queue count once in its window; computation is never in a launch group.
  void launch(const FlatTape::Op& op) {
    const std::size_t first = at(op.first), last = at(op.first + op.count);
    Time& host = host_[at(tape_.entries[first].place)];
    if constexpr (kWindow)
      for (std::size_t e = first; e < last; ++e)
        if (const Queue& queue = queue_of(e); queue.window > 0 && tape_.entries[e].opens_launch)
          host = std::max(host, queue.ends[queue.next]);
    const Time issued = host;
    host = issued + in_.launch_cost;
    Time begin = issued;
    for (std::size_t e = first; e < last; ++e) begin = ready(e, std::max(begin, queue_of(e).free));
    for (std::size_t e = first; e < last; ++e) {
      issued_[e] = issued;
      begin_[e] = begin;
    }
  }

  void complete(const FlatTape::Op& op) {
    if constexpr (kTogether)
      end_together(op.meeting);
    else
      ask_network(op.meeting);
    for (std::int32_t i = op.first; i < op.first + op.count; ++i)
      finish_launch(at(in_.flat.over[at(i)]));
  }

  void end_together(MeetingId m) {
    const TapeMeeting& meeting = tape_.meetings[m];
    const auto first = tape_.meeting_entries.begin() + meeting.first_entry;
    const auto last = first + meeting.num_entries;
    Time end;
    for (auto e = first; e != last; ++e) end = std::max(end, begin_[at(*e)]);
    end += meeting_durations_[m];
    for (auto e = first; e != last; ++e) completion_[at(*e)] = end;
  }

  // One call for each of the groups that the meeting stands for.
  void ask_network(MeetingId m) {
    const TapeMeeting& meeting = tape_.meetings[m];
    for (const TapeCallId c : meeting.calls()) {
      const TapeCall& call = tape_.calls[c];
      const auto size = at(call.num_members);
      if (arrivals_.size() < size) {
        arrivals_.resize(size);
        done_.resize(size);
      }
      for (std::int32_t i = 0; i < call.num_members; ++i)
        arrivals_[at(i)] = begin_[at(tape_.entry_of(call, i))];
      in_.network.complete(tape_.costs[call.cost], std::span(arrivals_).first(size),
                           std::span(done_).first(size));
      for (std::int32_t i = meeting.first_entry; i < meeting.first_entry + meeting.num_entries;
           ++i) {
        const std::int32_t e = tape_.meeting_entries[at(i)];
        if (const TapeEntry& entry = tape_.entries[at(e)]; entry.call == c)
          completion_[at(e)] = done_[at(entry.member)];
      }
    }
  }

  // A launch is over when all of its members are.
  void finish_launch(std::size_t first) {
    const std::int32_t group = tape_.entries[first].launch_group;
    if (group < 0) {
      finish(first, completion_[first]);
      return;
    }
    std::size_t last = first;
    Time end;
    for (; last < tape_.entries.size() && tape_.entries[last].launch_group == group; ++last)
      end = std::max(end, completion_[last]);
    for (std::size_t e = first; e < last; ++e) {
      if (tape_.entries[e].opens_launch)
        finish(e, end);
      else
        end_[e] = end;
    }
  }

  const Inputs& in_;
  const Tape& tape_;
  Table<MeetingId, Duration> meeting_durations_;  // kTogether
  const Duration* durations_;                     // by entry, of this step
  std::vector<Duration> own_durations_;           // where they are not those that were given

  std::vector<Time> host_;  // by place: when it can issue the next launch (launch_time.h)
  std::vector<Queue> queues_;
  std::vector<Time> ring_ends_;  // of those that may be full
  std::vector<Time> rank_ends_;  // by step modulo run-ahead, and place
  Time* rank_end_ = nullptr;     // of this step
  std::vector<Time> begin_, end_, issued_;
  std::vector<Time> completion_;  // of members, before their launch is over
  std::vector<Time> arrivals_, done_;
  std::vector<Time> state_, state_before_;
  std::vector<std::int32_t> ranks_, runs_;  // with jitter
};

// By meeting; nothing where two calls of one meeting last differently.
std::optional<Table<MeetingId, Duration>> meeting_durations(const Inputs& in) {
  const Table<TapeCallId, Duration> calls = call_durations(in);
  Table<MeetingId, Duration> durations;
  durations.reserve(in.flat.tape->meetings.size());
  for (const TapeMeeting& meeting : in.flat.tape->meetings) {
    const Duration first = calls[meeting.first_call];
    for (const TapeCallId call : meeting.calls())
      if (calls[call] != first) return std::nullopt;
    durations.push_back(first);
  }
  return durations;
}

bool fills_a_window(const Inputs& in) {
  return std::any_of(
      in.flat.launches_of_queue.begin(), in.flat.launches_of_queue.end(),
      [&](std::int64_t launches) { return launches * in.options.steps > in.options.window; });
}

TapeTimes run(const Inputs& in) {
  std::optional<Table<MeetingId, Duration>> together;
  if (in.network.completes_together()) together = meeting_durations(in);
  const bool window = fills_a_window(in);
  if (together && window) return Evaluation<true, true>(in, std::move(*together)).run();
  if (together) return Evaluation<true, false>(in, std::move(*together)).run();
  if (window) return Evaluation<false, true>(in, {}).run();
  return Evaluation<false, false>(in, {}).run();
}

}  // namespace

namespace {

std::int64_t piece_duration(const TapePiece& piece, const PhysicalGraph& graph, Rank rank,
                            const CostModel& cost) {
  Duration total;
  for (std::int32_t a = piece.first_actor; a < piece.first_actor + piece.num_actors; ++a)
    total += cost.duration_on(rank, graph.blocks[piece.block].actors[at(a)].work);
  return total.value;
}

}  // namespace

std::vector<Duration> entry_durations(const Tape& tape, const PhysicalGraph& graph,
                                      const CostModel& cost) {
  // By colour of the rank, then by piece; -1: not asked for yet.
  using OfPieces = Table<TapePieceId, std::int64_t>;
  std::map<std::int32_t, OfPieces> by_colour;
  std::vector<OfPieces*> of_place;
  for (const Rank rank : tape.ranks) {
    OfPieces& known = by_colour[cost.colour_of(rank)];
    known.resize(tape.pieces.size(), -1);
    of_place.push_back(&known);
  }
  std::vector<Duration> durations(tape.entries.size());
  for (std::size_t e = 0; e < durations.size(); ++e) {
    const TapeEntry& entry = tape.entries[e];
    if (!entry.piece.is_valid()) continue;
    std::int64_t& known = (*of_place[at(entry.place)])[entry.piece];
    if (known < 0) known = piece_duration(tape.pieces[entry.piece], graph, entry.rank, cost);
    durations[e] = Duration(known);
  }
  return durations;
}

TapeTimes evaluate(const Tape& tape, const PhysicalGraph&, std::span<const Duration> durations,
                   const CostModel& cost, const NetworkModel& network, const TapeOptions& options) {
  return evaluate(FlatTape(tape), durations, cost, network, options);
}

TapeTimes evaluate(const FlatTape& flat, std::span<const Duration> durations, const CostModel& cost,
                   const NetworkModel& network, const TapeOptions& options) {
  require(durations.size() == flat.tape->entries.size(), ErrorCode::kUsage,
          "{} durations for {} tape entries", durations.size(), flat.tape->entries.size());
  require(options.steps >= 1 && options.window >= 1 && options.run_ahead_steps >= 1,
          ErrorCode::kUsage, "steps {}, window {}, run-ahead {}: all must be at least 1",
          options.steps, options.window, options.run_ahead_steps);
  return run({flat, durations, cost.launch_cost(), network, options});
}

}  // namespace sextant
