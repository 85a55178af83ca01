// Values from one thread to one other, in order: a ring without a lock. Neither side ever waits.
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <utility>
#include <vector>

namespace sextant {

template <typename T>
class ThreadFifo {
 public:
  // Room for `capacity` values at least, made once.
  explicit ThreadFifo(std::size_t capacity) : ring_(std::bit_ceil(capacity < 2 ? 2 : capacity)) {}
  ThreadFifo(const ThreadFifo&) = delete;
  ThreadFifo& operator=(const ThreadFifo&) = delete;

  // The putting thread alone may call this. False means that the ring is full.
  bool try_put(T value) {
    const std::size_t end = end_.load(std::memory_order_relaxed);
    if (end - known_begin_ == ring_.size()) {
      known_begin_ = begin_.load(std::memory_order_acquire);
      if (end - known_begin_ == ring_.size()) return false;
    }
    ring_[end & (ring_.size() - 1)] = std::move(value);
    end_.store(end + 1, std::memory_order_release);
    return true;
  }

  // The taking thread alone may call this: handle(T&) for each value that is there. Returns how
  // many there were.
  template <typename Handle>
  std::size_t take(Handle&& handle) {
    const std::size_t begin = begin_.load(std::memory_order_relaxed);
    const std::size_t end = end_.load(std::memory_order_acquire);
    for (std::size_t i = begin; i != end; ++i) handle(ring_[i & (ring_.size() - 1)]);
    if (end != begin) begin_.store(end, std::memory_order_release);
    return end - begin;
  }
  bool is_empty() const {
    return begin_.load(std::memory_order_relaxed) == end_.load(std::memory_order_acquire);
  }

 private:
  // Each side's words on cache lines of their own.
  static constexpr std::size_t kLine = 64;
  std::vector<T> ring_;  // a power of two long
  alignas(kLine) std::atomic<std::size_t> end_{0};
  std::size_t known_begin_ = 0;  // of the one that puts: asking each time would share the line
  alignas(kLine) std::atomic<std::size_t> begin_{0};
};

}  // namespace sextant
