// SIGINT and SIGTERM: they end the program at once, or are noted while a WorkWatch is alive
// (cli/work_watch.h), which then ends the work in order and soon.
#pragma once

#include <string>

namespace sextant {

// From now on both signals end the program, as a shell expects: exit code 128 + number.
void watch_signals();

// A program reads standard output and gets one document: until it is written, a signal that ends
// the program at once writes another, which says that it was interrupted.
void owe_document();
void document_is_written();

// While one is alive signals are only noted. The third means "now" even then. All are made and
// ended on one thread.
class NotedSignals {
 public:
  NotedSignals();
  ~NotedSignals();
  NotedSignals(const NotedSignals&) = delete;
  NotedSignals& operator=(const NotedSignals&) = delete;
};

// A file that is written beside its place: while this is alive, a signal that ends the program at
// once removes it. One at a time; a second one has no effect.
class RemovedBySignal {
 public:
  explicit RemovedBySignal(const std::string& path);
  ~RemovedBySignal();
  RemovedBySignal(const RemovedBySignal&) = delete;
  RemovedBySignal& operator=(const RemovedBySignal&) = delete;

 private:
  bool is_noted_ = false;
};

// True once a signal was noted; its number, or 0.
bool was_interrupted();
int interrupting_signal();

// From now on signals change nothing: the program is about to end with another exit code.
void ignore_signals();

// Says that it was interrupted and ends the program without running destructors: threads may be
// anywhere.
[[noreturn]] void end_interrupted();

}  // namespace sextant
