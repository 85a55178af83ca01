// SIGINT and SIGTERM: they end the program at once, or are noted while a WorkWatch is alive
// (cli/work_watch.h), which then ends the work in order and soon.
#pragma once

namespace sextant {

// From now on both signals end the program, as a shell expects: exit code 128 + number.
void watch_signals();

// While one is alive signals are only noted. The third means "now" even then. All are made and
// ended on one thread.
class NotedSignals {
 public:
  NotedSignals();
  ~NotedSignals();
  NotedSignals(const NotedSignals&) = delete;
  NotedSignals& operator=(const NotedSignals&) = delete;
};

// True once a signal was noted; its number, or 0.
bool was_interrupted();
int interrupting_signal();

// Says that it was interrupted and ends the program without running destructors: threads may be
// anywhere.
[[noreturn]] void end_interrupted();

}  // namespace sextant
