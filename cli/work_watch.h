// A thread beside work that takes long: it shows how far the work is, and when a signal comes it
// sees to it that the program ends within a second, whatever the work is doing.
#pragma once

#include "cli/signals.h"

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace sextant {

// Signals are noted while it is alive. Who has one asks `was_interrupted` when the work is over.
class WorkWatch {
 public:
  // All run on the thread of the watch; each may be empty.
  struct Duties {
    std::function<void()> show;        // how far the work is; many times a second
    std::function<void()> ask_to_end;  // once, when a signal came
    // The work did not end soon after it: keeps what there is, then the program ends
    // with the signal's exit code.
    std::function<void()> last_words;
    // Work that is between two kernels or two candidates ends in order within it.
    double grace_s = 0.4;
  };

  explicit WorkWatch(Duties duties);
  ~WorkWatch();  // the work is over
  WorkWatch(const WorkWatch&) = delete;
  WorkWatch& operator=(const WorkWatch&) = delete;

 private:
  void watch();
  bool is_over_within(double seconds);
  void end_work();

  const NotedSignals noted_;
  const Duties duties_;
  std::mutex mutex_;  // of is_over_
  std::condition_variable over_;
  bool is_over_ = false;
  std::thread thread_;
};

}  // namespace sextant
