// Threads that outlive their work: one that is done waits for the next. A job of eight ranks is
// sixteen threads and more, and starting one takes longer than the steps of a small graph.
#pragma once

#include <functional>
#include <memory>

namespace sextant {

// Work on a thread of its own; all works that are under way run at the same time, however many
// there are. The thread is a new one only when none is idle. Idle threads end with the process; a
// child of fork() has none of them.
class ReusedThread {
 public:
  ReusedThread() = default;
  // Begins at once. `work` must not throw. Throws std::system_error when no thread can be started.
  explicit ReusedThread(std::function<void()> work);
  // Waits like `join`.
  ~ReusedThread();
  ReusedThread(ReusedThread&&) noexcept = default;
  // Joins what was begun here before.
  ReusedThread& operator=(ReusedThread&& other) noexcept;
  ReusedThread(const ReusedThread&) = delete;
  ReusedThread& operator=(const ReusedThread&) = delete;

  // Waits until the work is over; what it wrote is visible then. Nothing when nothing was begun, or
  // when it was joined before.
  void join();

 private:
  class Worker;
  std::shared_ptr<Worker> worker_;
};

}  // namespace sextant
