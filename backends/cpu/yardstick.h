// How fast the processors of this machine are at the moment, by one fixed product of matrices.
// Where several guests share a host, a core comes to three quarters of its speed for seconds at a
// time, and no counter of the guest says so.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

namespace sextant {

// For one thread at a time.
class Yardstick {
 public:
  Yardstick();
  // Processor seconds of one product by the calling thread: the least of a few, which was not
  // interrupted. Operands come from as far away as a step's do: each time others than the last,
  // 8 MiB in all. Takes a millisecond with a BLAS; without one it is a plain product of fewer rows.
  double seconds();

 private:
  struct Operands {
    std::vector<float> a, b, c;
  };

  std::vector<Operands> copies_;  // taken in turn
  std::size_t turn_ = 0;
};

// Takes the yardstick now and then while it lives, on a thread of its own: with the usual period
// for a few thousandths of one core.
class SpeedWatch {
 public:
  explicit SpeedWatch(std::chrono::milliseconds period = std::chrono::milliseconds(250));
  ~SpeedWatch();
  SpeedWatch(const SpeedWatch&) = delete;
  SpeedWatch& operator=(const SpeedWatch&) = delete;

  // The mean so far. Waits for the first look, which begins with the watch.
  double mean_seconds() const;

 private:
  void watch();

  const std::chrono::milliseconds period_;
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;  // the first look is over, or the watch is to end
  bool is_ended_ = false;
  double sum_ = 0;
  std::int64_t count_ = 0;
  std::thread thread_;
};

}  // namespace sextant
