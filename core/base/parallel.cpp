// Threads that take the next task from a counter.
#include "core/base/parallel.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <thread>
#include <vector>

namespace sextant {

namespace {

std::atomic<std::size_t> most_threads = 0;  // 0: one per core

std::size_t threads_for(std::size_t tasks) {
  const std::size_t most = most_threads.load();
  const std::size_t cores = std::max(1U, std::thread::hardware_concurrency());
  return std::min(most > 0 ? most : cores, tasks);
}

}  // namespace

void limit_threads(std::size_t most) { most_threads = most; }

void for_each_in_parallel(std::size_t count, const std::function<void(std::size_t)>& task) {
  std::atomic<std::size_t> next = 0;
  std::vector<std::exception_ptr> failures(count);
  const auto work = [&] {
    for (std::size_t index = next++; index < count; index = next++) {
      try {
        task(index);
      } catch (...) {
        failures[index] = std::current_exception();
      }
    }
  };
  std::vector<std::thread> helpers;
  for (std::size_t i = 1; i < threads_for(count); ++i) helpers.emplace_back(work);
  work();
  for (std::thread& helper : helpers) helper.join();
  for (const std::exception_ptr& failure : failures)
    if (failure) std::rethrow_exception(failure);
}

}  // namespace sextant
