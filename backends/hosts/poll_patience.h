// How long whoever waits for a message looks for it before sleeping. Looking is fifty times as fast
// as being woken, and takes a processor from whoever computes: so only for a little while, and only
// where processors are left. Nobody gives way in between: on a busy processor that costs a time
// slice, and whoever sleeps is woken sooner. Times are arguments: no clock.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string_view>

namespace sextant {

class PollPatience {
 public:
  using Time = std::chrono::steady_clock::time_point;
  // Longer than an answer takes of one who slept: two who wake each other find the pace again.
  static constexpr std::chrono::microseconds kLongest{200};

  // Whether to look again, for one that has waited since `begin`. Any thread.
  bool looks_again(Time begin, Time now) const { return !is_crowded() && now - begin < kLongest; }
  // More threads want to run than there are processors.
  bool is_crowded() const { return is_crowded_.load(std::memory_order_relaxed); }
  // What the machine says: threads that run or want to, the one that asks not counted.
  void note(std::int64_t runnable, std::int64_t processors) {
    is_crowded_.store(runnable > processors, std::memory_order_relaxed);
  }

 private:
  std::atomic<bool> is_crowded_{false};
};

// Threads of this machine that run or want to, from /proc/loadavg; nothing: the text is another.
std::optional<std::int64_t> runnable_threads(std::string_view loadavg);

// Asks the kernel each time, some microseconds. Linux; nothing elsewhere.
class RunnableThreads {
 public:
  RunnableThreads();
  ~RunnableThreads();
  RunnableThreads(const RunnableThreads&) = delete;
  RunnableThreads& operator=(const RunnableThreads&) = delete;
  // The caller included.
  std::optional<std::int64_t> now() const;

 private:
  int file_ = -1;
};

}  // namespace sextant
