// Trace event format: complete events and counters. Slices of one queue never overlap, and the
// operators of a run lie inside it.

#include "simulator/reports/chrome_trace.h"

#include "core/base/check.h"
#include "core/text/json_text.h"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>
#include <utility>

namespace sextant {

namespace {

std::string quoted(const std::string& text) { return lenient_json_text(text); }

class ChromeTraceWriter {
 public:
  void add(const TraceSlice& slice) {
    add(slice, slice.rank.value, fmt::format("rank {}", slice.rank.value));
  }

  void add(const TraceSlice& slice, int process, const std::string& process_name) {
    const int thread =
        static_cast<int>(slice.queue) + static_cast<int>(kNumQueueRoles) * slice.lane;
    if (processes_.insert(process).second)
      add_name("process_name", process, 0, quoted(process_name));
    if (threads_.insert({process, thread}).second)
      add_name("thread_name", process, thread, quoted(lane_name(slice)));
    begin_event();
    // Names repeat from act to act and from rank to rank.
    const auto [name, is_new] = quoted_.try_emplace(slice.name);
    if (is_new) name->second = quoted(slice.name);
    append(R"({{"name":{},"ph":"X","pid":{},"tid":{},"ts":)", name->second, process, thread);
    append_microseconds(slice.begin);
    append(R"(,"dur":)");
    append_microseconds(slice.end - slice.begin);
    append(R"(,"args":{{"act":{}}}}})", slice.act);
  }

  void add(const CounterTrack& track) {
    const std::string name = quoted(track.name);
    for (const CounterTrack::Sample& sample : track.samples) {
      begin_event();
      append(R"({{"name":{},"ph":"C","pid":{},"tid":0,"ts":)", name, track.rank.value);
      append_microseconds(sample.at);
      append(R"(,"args":{{"value":{}}}}})", sample.value);
    }
  }

  std::string text() {
    return "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[" + events_ + "\n]}\n";
  }

 private:
  template <typename... Values>
  void append(fmt::format_string<Values...> format, Values&&... values) {
    fmt::format_to(std::back_inserter(events_), format, std::forward<Values>(values)...);
  }

  void begin_event() { append("{}\n", events_.size() == 0 ? "" : ","); }

  void add_name(const char* what, int process, int thread, const std::string& name) {
    begin_event();
    append(R"({{"name":"{}","ph":"M","pid":{},"tid":{},"args":{{"name":{}}}}})", what, process,
           thread, name);
  }

  // With every picosecond, because a double would round.
  void append_microseconds(Duration time) {
    append("{}.{:06}", time.value / 1'000'000, time.value % 1'000'000);
  }

  std::string events_;
  std::set<int> processes_;
  std::set<std::pair<int, int>> threads_;
  std::unordered_map<std::string, std::string> quoted_;
};

// Changes of a count, in any order, as samples from `origin` on.
std::vector<CounterTrack::Sample> samples_of(std::map<Time, std::int64_t>& changes, Time origin) {
  std::vector<CounterTrack::Sample> samples;
  std::int64_t value = 0;
  for (const auto& [at, change] : changes) {
    value += change;
    const Time since = std::max(at, origin) - origin;
    if (!samples.empty() && samples.back().at == since)
      samples.back().value = value;
    else if (change != 0)
      samples.push_back({since, value});
  }
  return samples;
}

}  // namespace

std::string lane_name(const TraceSlice& slice) {
  return slice.queue == QueueRole::kHost ? slice.name : std::string(to_string(slice.queue));
}

std::vector<CounterTrack> launches_in_flight(const Timeline& timeline) {
  const Time origin = timeline.first_begin();
  std::vector<CounterTrack> tracks;
  for (const RankTimeline& rank : timeline.ranks) {
    std::map<QueueRole, std::map<Time, std::int64_t>> changes;
    for (const TimedRun& run : rank.runs) {
      ++changes[run.queue][run.issued];
      --changes[run.queue][run.end];
    }
    for (auto& [queue, of_queue] : changes)
      tracks.push_back({rank.rank, fmt::format("{}: launches in flight", to_string(queue)),
                        samples_of(of_queue, origin)});
  }
  return tracks;
}

std::string to_chrome_trace(const Simulation& simulation, std::span<const CounterTrack> counters) {
  ChromeTraceWriter writer;
  for (const TraceSlice& slice : simulation.slices) writer.add(slice);
  for (const CounterTrack& track : counters) writer.add(track);
  return writer.text();
}

std::string to_chrome_trace(std::span<const NamedSlices> steps) {
  ChromeTraceWriter writer;
  for (std::size_t i = 0; i < steps.size(); ++i)
    for (const TraceSlice& slice : steps[i].slices)
      writer.add(slice, slice.rank.value * static_cast<int>(steps.size()) + static_cast<int>(i),
                 fmt::format("rank {}: {}", slice.rank.value, steps[i].name));
  return writer.text();
}

}  // namespace sextant
