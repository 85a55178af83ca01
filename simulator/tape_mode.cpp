// From tape times to timelines; the arithmetic is actor/tape_evaluation.cpp's.

#include "simulator/tape_mode.h"

#include "simulator/run_facts.h"

#include <algorithm>

namespace sextant {

namespace {

// By entry: when the last member of its communication was there; its begin if it is none.
std::vector<Time> all_arrived(const Tape& tape, const TapeTimes& times) {
  std::vector<Time> arrived = times.begin;
  for (const TapeMeeting& meeting : tape.meetings) {
    const auto first = tape.meeting_entries.begin() + meeting.first_entry;
    const auto last = first + meeting.num_entries;
    Time latest;
    for (auto e = first; e != last; ++e)
      latest = std::max(latest, times.begin[static_cast<std::size_t>(*e)]);
    for (auto e = first; e != last; ++e) arrived[static_cast<std::size_t>(*e)] = latest;
  }
  return arrived;
}

// Every rank is in the tape: each call is one communication of one group.
Traffic traffic_of(const PhysicalGraph& graph, const Tape& tape) {
  Traffic traffic;
  for (const TapeCall& call : tape.calls) {
    const CollectiveCost& cost = tape.costs[static_cast<std::size_t>(call.cost)];
    add_traffic(graph, *cost.communication, cost.members, traffic);
  }
  return traffic;
}

}  // namespace

TapeOptions tape_options(const SimulateOptions& options) {
  TapeOptions result;
  result.steps = options.steps;
  result.window = options.window;
  result.jitter = options.jitter;
  result.seed = options.seed;
  return result;
}

Timeline timeline_of(const PhysicalGraph& graph, const Tape& tape, const TapeTimes& times,
                     const RankClasses& classes, const SimulateOptions& options) {
  const std::vector<Time> arrived = all_arrived(tape, times);
  Timeline timeline;
  timeline.step_end = times.step_end;
  timeline.events = static_cast<std::int64_t>(tape.entries.size()) * options.steps;
  timeline.ranks = empty_timelines(tape.ranks, classes);
  if (options.keep_traffic) timeline.traffic = traffic_of(graph, tape);
  for (std::size_t e = 0; e < tape.entries.size(); ++e) {
    const TapeEntry& entry = tape.entries[e];
    timeline.ranks[static_cast<std::size_t>(entry.place)].runs.push_back(
        {entry.run, entry.queue, is_optimizer(graph, entry.rank, entry.run), times.issued[e],
         arrived[e], times.begin[e], times.end[e]});
  }
  return timeline;
}

Timeline run_tape_mode(const PhysicalGraph& graph, const Tape& tape, const RankClasses& classes,
                       const CostModel& cost, const NetworkModel& network,
                       const SimulateOptions& options) {
  const TapeTimes times = evaluate(tape, graph, entry_durations(tape, graph, cost), cost, network,
                                   tape_options(options));
  return timeline_of(graph, tape, times, classes, options);
}

}  // namespace sextant
