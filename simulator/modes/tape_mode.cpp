// From tape times to timelines; the arithmetic is actor/tapes/tape_evaluation.cpp's.

#include "simulator/modes/tape_mode.h"

#include "core/base/at.h"
#include "simulator/steps/run_facts.h"

#include <algorithm>

namespace sextant {

namespace {

// By meeting: when the last member was there.
Table<MeetingId, Time> all_arrived(const Tape& tape, const TapeTimes& times) {
  Table<MeetingId, Time> arrived(tape.meetings.size());
  for (std::size_t e = 0; e < tape.entries.size(); ++e) {
    const MeetingId meeting = tape.entries[e].meeting;
    if (!meeting.is_valid()) continue;
    arrived[meeting] = std::max(arrived[meeting], times.begin[e]);
  }
  return arrived;
}

// Every rank is in the tape: each call is one communication of one group.
Traffic traffic_of(const PhysicalGraph& graph, const Tape& tape) {
  Traffic traffic;
  for (const TapeCall& call : tape.calls) {
    const CollectiveCost& cost = tape.costs[call.cost];
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

Timeline outline_of(const PhysicalGraph& graph, const Tape& tape, const TapeTimes& times,
                    const RankClasses& classes, const SimulateOptions& options) {
  Timeline timeline;
  timeline.step_end = times.step_end;
  timeline.events = static_cast<std::int64_t>(tape.entries.size()) * options.steps;
  timeline.ranks = empty_timelines(tape.ranks, classes);
  timeline.place_of = classes.class_of;
  if (options.keep_traffic) timeline.traffic = traffic_of(graph, tape);
  return timeline;
}

std::vector<PartDurations> parts_of(const Tape& tape, const TapeTimes& times, Duration period) {
  const Table<MeetingId, Time> arrived = all_arrived(tape, times);
  std::vector<RankActivity> ranks(tape.ranks.size());
  for (std::size_t e = 0; e < tape.entries.size(); ++e) {
    const TapeEntry& entry = tape.entries[e];
    const Time last = entry.meeting.is_valid() ? arrived[entry.meeting] : times.begin[e];
    ranks[at(entry.place)].add(entry.queue, entry.optimizer, times.issued[e], last, times.end[e]);
  }
  std::vector<PartDurations> parts;
  parts.reserve(ranks.size());
  for (RankActivity& rank : ranks) parts.push_back(rank.parts(period));
  return parts;
}

Timeline timeline_of(const PhysicalGraph& graph, const Tape& tape, const TapeTimes& times,
                     const RankClasses& classes, const SimulateOptions& options) {
  const Table<MeetingId, Time> arrived = all_arrived(tape, times);
  Timeline timeline = outline_of(graph, tape, times, classes, options);
  for (RankTimeline& rank : timeline.ranks)
    rank.runs.reserve(graph.program_of(rank.rank).order.size());
  for (std::size_t e = 0; e < tape.entries.size(); ++e) {
    const TapeEntry& entry = tape.entries[e];
    const Time last = entry.meeting.is_valid() ? arrived[entry.meeting] : times.begin[e];
    timeline.ranks[at(entry.place)].runs.push_back({entry.run, entry.queue, entry.optimizer,
                                                    times.issued[e], last, times.begin[e],
                                                    times.end[e]});
  }
  return timeline;
}

}  // namespace sextant
