// Trace event format, complete events only: slices of one queue never overlap, and the operators
// of a run lie inside it.

#include "core/check.h"
#include "simulator/simulate.h"

#include <nlohmann/json.hpp>

#include <set>
#include <utility>

namespace sextant {

namespace {

// Microseconds with every picosecond, because a double would round.
std::string microseconds(std::int64_t picoseconds) {
  return fmt::format("{}.{:06}", picoseconds / 1'000'000, picoseconds % 1'000'000);
}

std::string quoted(const std::string& text) { return nlohmann::json(text).dump(); }

std::string slice_event(const TraceSlice& slice) {
  return fmt::format(
      R"({{"name":{},"ph":"X","pid":{},"tid":{},"ts":{},"dur":{},"args":{{"act":{}}}}})",
      quoted(slice.name), slice.rank.value, static_cast<int>(slice.queue),
      microseconds(slice.begin.value), microseconds(slice.end.value - slice.begin.value),
      slice.act);
}

std::string name_event(const char* what, int process, int thread, const std::string& name) {
  return fmt::format(R"({{"name":"{}","ph":"M","pid":{},"tid":{},"args":{{"name":{}}}}})", what,
                     process, thread, quoted(name));
}

}  // namespace

std::string to_chrome_trace(const Simulation& simulation) {
  std::set<int> processes;
  std::set<std::pair<int, QueueRole>> threads;
  std::string events;
  const auto append = [&](const std::string& event) {
    events += (events.empty() ? "\n" : ",\n") + event;
  };
  for (const TraceSlice& slice : simulation.slices) {
    const int process = slice.rank.value;
    if (processes.insert(process).second)
      append(name_event("process_name", process, 0, fmt::format("rank {}", process)));
    if (threads.insert({process, slice.queue}).second)
      append(name_event("thread_name", process, static_cast<int>(slice.queue),
                        std::string(to_string(slice.queue))));
    append(slice_event(slice));
  }
  return "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[" + events + "\n]}\n";
}

}  // namespace sextant
