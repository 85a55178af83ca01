// Issues, begins, ends and meetings as vertices, what must pass between them as edges. The path
// follows edges without play backwards; slack is the latest time of a vertex, found backwards too.

#include "simulator/reports/critical_path.h"

#include "core/base/at.h"
#include "core/base/check.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <optional>

namespace sextant {

namespace {

struct Edge {
  std::int32_t from = 0, to = 0;
  std::int64_t weight = 0;  // picoseconds that pass at least
  std::int32_t lag = 0;     // `from` is of so many steps before
  PathPart part = PathPart::kCompute;
  std::int32_t entry = 0;
};

// ---------------------------------------------------------------- vertices and edges

class StepGraph {
 public:
  StepGraph(const Tape& tape, const TapeTimes& times, const NetworkModel& network,
            Duration launch_cost, const TapeOptions& options)
      : tape_(tape), times_(times), network_(network), options_(options) {
    entries_ = static_cast<std::int32_t>(tape.entries.size());
    time_vertices();
    add_hosts(launch_cost);
    add_queues();
    for (std::int32_t e = 0; e < entries_; ++e) add_waits(e);
    add_meetings();
  }

  std::int32_t issue(std::int32_t entry) const { return 3 * head_of(entry); }
  std::int32_t begin(std::int32_t entry) const { return 3 * head_of(entry) + 1; }
  std::int32_t end(std::int32_t entry) const { return 3 * entry + 2; }

  const std::vector<Edge>& edges() const { return edges_; }
  const std::vector<std::int64_t>& times() const { return vertex_times_; }

 private:
  std::int32_t met(MeetingId meeting) const { return 3 * entries_ + meeting.value; }
  // A launch group is issued and begins as one.
  std::int32_t head_of(std::int32_t entry) const {
    const std::int32_t group = tape_.entries[at(entry)].launch_group;
    return group < 0 ? entry : group;
  }
  bool is_head(std::int32_t entry) const { return head_of(entry) == entry; }

  void time_vertices() {
    vertex_times_.assign(3 * tape_.entries.size() + tape_.meetings.size(), 0);
    for (std::int32_t e = 0; e < entries_; ++e) {
      vertex_times_[3 * at(e)] = times_.issued[at(e)].value;
      vertex_times_[3 * at(e) + 1] = times_.begin[at(e)].value;
      vertex_times_[3 * at(e) + 2] = times_.end[at(e)].value;
    }
    for (const MeetingId m : tape_.meetings.keys()) {
      std::int64_t& last = vertex_times_[at(met(m))];
      for (const std::int32_t e : members_of(tape_.meetings[m]))
        last = std::max(last, times_.begin[at(e)].value);
    }
  }

  std::span<const std::int32_t> members_of(const TapeMeeting& meeting) const {
    return std::span(tape_.meeting_entries)
        .subspan(at(meeting.first_entry), at(meeting.num_entries));
  }

  void add(std::int32_t from, std::int32_t to, std::int64_t weight, std::int32_t lag, PathPart part,
           std::int32_t entry) {
    edges_.push_back({from, to, weight, lag, part, entry});
  }

  // One launch after the other; the first of a step also waits for a step before, as a whole.
  void add_hosts(Duration launch_cost) {
    std::vector<std::vector<std::int32_t>> launches(tape_.ranks.size()), ends(tape_.ranks.size());
    for (std::int32_t e = 0; e < entries_; ++e) {
      const std::size_t place = at(tape_.entries[at(e)].place);
      ends[place].push_back(e);
      if (is_head(e)) launches[place].push_back(e);
    }
    for (std::size_t place = 0; place < launches.size(); ++place) {
      const auto& list = launches[place];
      for (std::size_t i = 0; i < list.size(); ++i) {
        const std::int32_t before = i == 0 ? list.back() : list[i - 1];
        add(issue(before), issue(list[i]), launch_cost.value, i == 0 ? 1 : 0, PathPart::kHost,
            list[i]);
      }
      if (list.empty()) continue;
      const auto lag = static_cast<std::int32_t>(options_.run_ahead_steps);
      for (const std::int32_t e : ends[place])
        add(end(e), issue(list[0]), 0, lag, PathPart::kHost, e);
    }
  }

  // By place and queue: entries in order, and those that count in the window.
  void add_queues() {
    std::map<std::pair<std::int32_t, QueueRole>, std::vector<std::int32_t>> queues;
    for (std::int32_t e = 0; e < entries_; ++e)
      queues[{tape_.entries[at(e)].place, tape_.entries[at(e)].queue}].push_back(e);
    for (const auto& [key, queue] : queues) {
      std::vector<std::int32_t> launches;
      for (std::size_t i = 0; i < queue.size(); ++i) {
        const std::int32_t before = i == 0 ? queue.back() : queue[i - 1];
        // Members of one launch group on one queue begin together.
        if (i == 0 || head_of(before) != head_of(queue[i]))
          add(end(before), begin(queue[i]), 0, i == 0 ? 1 : 0, PathPart::kCompute, queue[i]);
        if (tape_.entries[at(queue[i])].opens_launch) launches.push_back(queue[i]);
      }
      add_window(launches);
    }
  }

  void add_window(const std::vector<std::int32_t>& launches) {
    const auto count = static_cast<std::int64_t>(launches.size());
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t before = i - options_.window;
      const std::int64_t lag = before >= 0 ? 0 : (-before + count - 1) / count;
      if (lag >= options_.run_ahead_steps) continue;  // the host has waited for all of that step
      const auto from = static_cast<std::size_t>(before + lag * count);
      const std::int32_t launch = launches[static_cast<std::size_t>(i)];
      add(end(launches[from]), issue(launch), 0, static_cast<std::int32_t>(lag), PathPart::kHost,
          launch);
    }
  }

  void add_waits(std::int32_t e) {
    const TapeEntry& entry = tape_.entries[at(e)];
    if (is_head(e)) add(issue(e), begin(e), 0, 0, PathPart::kHost, e);
    for (std::int32_t w = entry.first_wait; w < entry.first_wait + entry.num_waits; ++w) {
      const TapeWait& wait = tape_.waits[at(w)];
      add(end(wait.entry), begin(e), 0, wait.lag, PathPart::kCompute, e);
    }
    if (entry.meeting.is_valid()) return;
    add(begin(e), end(e), times_.end[at(e)].value - times_.begin[at(e)].value, 0,
        PathPart::kCompute, e);
  }

  void add_meetings() {
    std::map<std::int32_t, std::vector<std::int32_t>> by_group;
    for (std::int32_t e = 0; e < entries_; ++e)
      if (tape_.entries[at(e)].launch_group >= 0) by_group[head_of(e)].push_back(e);
    for (const TapeCallId c : tape_.calls.keys()) {
      const TapeCall& call = tape_.calls[c];
      const std::vector<Time> done = completions(call);
      for (const std::int32_t e : members_of(tape_.meetings[call.meeting])) {
        const TapeEntry& entry = tape_.entries[at(e)];
        if (entry.call != c) continue;
        const auto group = by_group.find(head_of(e));
        // A launch group is over, as a whole, with its last communication.
        if (group == by_group.end())
          add_completion(e, e, call.meeting, done[at(entry.member)]);
        else
          for (const std::int32_t other : group->second)
            add_completion(e, other, call.meeting, done[at(entry.member)]);
      }
    }
    for (const MeetingId m : tape_.meetings.keys())
      for (const std::int32_t e : members_of(tape_.meetings[m]))
        add(begin(e), met(m), 0, 0, PathPart::kCommunication, e);
  }

  void add_completion(std::int32_t e, std::int32_t ended, MeetingId meeting, Time done) {
    const std::int64_t after_all = done.value - vertex_times_[at(met(meeting))];
    if (after_all >= 0)
      add(met(meeting), end(ended), after_all, 0, PathPart::kCommunication, e);
    else  // it did not need the last to come
      add(begin(e), end(ended), done.value - times_.begin[at(e)].value, 0, PathPart::kCommunication,
          e);
  }

  std::vector<Time> completions(const TapeCall& call) const {
    std::vector<Time> arrivals, done(at(call.num_members));
    for (std::int32_t i = 0; i < call.num_members; ++i)
      arrivals.push_back(times_.begin[at(tape_.entry_of(call, i))]);
    network_.complete(tape_.costs[call.cost], arrivals, done);
    return done;
  }

  const Tape& tape_;
  const TapeTimes& times_;
  const NetworkModel& network_;
  const TapeOptions& options_;
  std::int32_t entries_ = 0;
  std::vector<std::int64_t> vertex_times_;
  std::vector<Edge> edges_;
};

// Edges by one of their ends.
class Adjacency {
 public:
  Adjacency(const std::vector<Edge>& edges, std::size_t vertices, std::int32_t Edge::*end)
      : first_(vertices + 1) {
    for (const Edge& edge : edges) ++first_[at(edge.*end) + 1];
    std::partial_sum(first_.begin(), first_.end(), first_.begin());
    sorted_.resize(edges.size());
    std::vector<std::size_t> next(first_.begin(), first_.end() - 1);
    for (const Edge& edge : edges) sorted_[next[at(edge.*end)]++] = edge;
  }
  std::span<const Edge> of(std::int32_t vertex) const {
    return std::span(sorted_).subspan(first_[at(vertex)],
                                      first_[at(vertex) + 1] - first_[at(vertex)]);
  }

 private:
  std::vector<std::size_t> first_;
  std::vector<Edge> sorted_;
};

// ---------------------------------------------------------------- path and slack

class Analysis {
 public:
  Analysis(const StepGraph& graph, const TapeTimes& times)
      : graph_(graph),
        times_(times),
        incoming_(graph.edges(), graph.times().size(), &Edge::to),
        outgoing_(graph.edges(), graph.times().size(), &Edge::from) {
    const auto steps = times.step_end.size();
    step_end_ = times.step_end.back().value;
    period_ = steps > 1 ? step_end_ - times.step_end[steps - 2].value : step_end_;
    first_step_ = steps == 1;
  }

  bool is_steady() const {
    if (first_step_) return false;
    for (std::size_t v = 0; v < graph_.times().size(); ++v) {
      const auto vertex = static_cast<std::int32_t>(v);
      const auto edges = incoming_.of(vertex);
      const bool bound = std::any_of(edges.begin(), edges.end(),
                                     [&](const Edge& edge) { return play(edge) == 0; });
      const bool possible = std::all_of(edges.begin(), edges.end(),
                                        [&](const Edge& edge) { return play(edge) >= 0; });
      if (!possible || (!bound && !edges.empty())) return false;
    }
    return true;
  }

  std::vector<PathSegment> path(std::int32_t last) const {
    const std::int64_t start = step_end_ - period_;
    std::vector<PathSegment> segments;
    std::int32_t vertex = last;
    std::int64_t now = graph_.times()[at(last)];  // of `vertex`, in the step it is reached in
    // Edges without weight never form a ring, so every step of the loop but as many as there are
    // vertices takes time.
    while (now > start) {
      const Edge* edge = binding(vertex);
      if (edge == nullptr) break;
      if (edge->weight > 0)
        segments.push_back({edge->entry, edge->part,
                            Time(std::max<std::int64_t>(now - edge->weight - start, 0)),
                            Time(now - start)});
      now -= edge->weight;
      vertex = edge->from;
    }
    std::reverse(segments.begin(), segments.end());
    return segments;
  }

  std::vector<Duration> slack(bool steady) const {
    std::vector<std::int64_t> latest = latest_times(steady);
    std::vector<Duration> slack;
    for (std::size_t e = 0; e < times_.end.size(); ++e) {
      const auto vertex = at(graph_.end(static_cast<std::int32_t>(e)));
      slack.emplace_back(latest[vertex] - graph_.times()[vertex]);
    }
    return slack;
  }

 private:
  // How much later `from` could be without moving `to`.
  std::int64_t play(const Edge& edge) const {
    const auto& time = graph_.times();
    return time[at(edge.to)] - (time[at(edge.from)] - edge.lag * period_ + edge.weight);
  }

  const Edge* binding(std::int32_t vertex) const {
    const Edge* best = nullptr;
    for (const Edge& edge : incoming_.of(vertex)) {
      if ((first_step_ && edge.lag > 0) || play(edge) != 0) continue;
      if (best == nullptr || (best->part == PathPart::kHost && edge.part != PathPart::kHost))
        best = &edge;
    }
    return best;
  }

  // Backwards until nothing moves: edges into the next step make rings, which take no more than a
  // period, so a few passes do.
  std::vector<std::int64_t> latest_times(bool steady) const {
    const auto& time = graph_.times();
    std::vector<std::int32_t> order(time.size());
    std::iota(order.rbegin(), order.rend(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](std::int32_t a, std::int32_t b) { return time[at(a)] > time[at(b)]; });
    std::vector<std::int64_t> latest(
        time.size(), std::max(step_end_, *std::max_element(time.begin(), time.end())));
    for (bool moved = true; moved;) {
      moved = false;
      for (const std::int32_t vertex : order)
        for (const Edge& edge : outgoing_.of(vertex)) {
          if (edge.lag > 0 && !steady) continue;
          const std::int64_t limit = latest[at(edge.to)] + edge.lag * period_ - edge.weight;
          if (limit >= latest[at(vertex)]) continue;
          latest[at(vertex)] = limit;
          moved = true;
        }
    }
    return latest;
  }

  const StepGraph& graph_;
  const TapeTimes& times_;
  Adjacency incoming_, outgoing_;
  std::int64_t step_end_ = 0, period_ = 0;
  bool first_step_ = false;
};

}  // namespace

std::string_view to_string(PathPart part) {
  switch (part) {
    case PathPart::kCompute:
      return "compute";
    case PathPart::kCommunication:
      return "communication";
    case PathPart::kHost:
      return "host";
  }
  return "?";
}

CriticalPath critical_path(const Tape& tape, const TapeTimes& times, const NetworkModel& network,
                           Duration launch_cost, const TapeOptions& options) {
  require(times.begin.size() == tape.entries.size() && !times.step_end.empty(), ErrorCode::kUsage,
          "times of {} entries for a tape of {}", times.begin.size(), tape.entries.size());
  CriticalPath result;
  if (tape.entries.empty()) return result;
  const StepGraph graph(tape, times, network, launch_cost, options);
  const Analysis analysis(graph, times);
  result.steady = analysis.is_steady();
  const auto last = std::max_element(times.end.begin(), times.end.end()) - times.end.begin();
  result.segments = analysis.path(graph.end(static_cast<std::int32_t>(last)));
  result.slack = analysis.slack(result.steady);
  return result;
}

}  // namespace sextant
