// One slot and one thread.
#include "io/checkpoints/background_writer.h"

#include <utility>

namespace sextant {

BackgroundWriter::BackgroundWriter(WriteContents write) : write_(std::move(write)) {}

BackgroundWriter::~BackgroundWriter() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void BackgroundWriter::throw_failure() const {
  if (failure_) std::rethrow_exception(failure_);
}

void BackgroundWriter::wait_until_idle() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return failure_ || (!next_ && !at_work_); });
  throw_failure();
}

void BackgroundWriter::require_sound() {
  const std::lock_guard lock(mutex_);
  throw_failure();
}

void BackgroundWriter::begin(CheckpointContents contents) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return failure_ || (!next_ && !at_work_); });
  throw_failure();
  next_ = std::move(contents);
  if (!thread_.joinable()) thread_ = std::thread([this] { loop(); });
  changed_.notify_all();
}

void BackgroundWriter::loop() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stopping_ || next_; });
    if (stopping_) return;
    const CheckpointContents contents = *std::exchange(next_, std::nullopt);
    at_work_ = true;
    lock.unlock();
    std::exception_ptr failure;
    try {
      write_(contents, [this] { return stopping_.load(); });
    } catch (...) {
      failure = std::current_exception();
    }
    lock.lock();
    at_work_ = false;
    failure_ = failure;
    changed_.notify_all();
    if (failure_) return;
  }
}

}  // namespace sextant
