// Checkpoints written on a thread of their own, one at a time, beside the training.
#pragma once

#include "io/checkpoints/checkpoint_writer.h"

#include <atomic>
#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>

namespace sextant {

// How one checkpoint gets to disk; asks `stop` between two parts.
using WriteContents = std::function<void(const CheckpointContents&, const StopWriting& stop)>;

class BackgroundWriter {
 public:
  explicit BackgroundWriter(WriteContents write);
  // What is being written is given up.
  ~BackgroundWriter();
  BackgroundWriter(const BackgroundWriter&) = delete;
  BackgroundWriter& operator=(const BackgroundWriter&) = delete;

  // Any thread may call these. All throw what a write threw, now and ever after.
  void wait_until_idle();
  void begin(CheckpointContents contents);  // when idle
  void require_sound();                     // does not wait

 private:
  void loop();
  void throw_failure() const;

  const WriteContents write_;
  std::atomic<bool> stopping_{false};
  std::mutex mutex_;  // of what is below
  std::condition_variable changed_;
  std::optional<CheckpointContents> next_;
  bool at_work_ = false;
  std::exception_ptr failure_;
  std::thread thread_;
};

}  // namespace sextant
