// One mutex for the first error.
#include "actor/rank_threads.h"

#include "actor/reused_thread.h"

#include <exception>
#include <mutex>
#include <utility>
#include <vector>

namespace sextant {

void on_rank_threads(std::size_t ranks, const std::function<void(std::size_t)>& body,
                     const std::function<void(const std::string&)>& stop) {
  std::mutex mutex;
  std::exception_ptr first;
  const auto failed = [&](std::exception_ptr error, const std::string& reason) {
    {
      const std::lock_guard lock(mutex);
      if (first) return;
      first = std::move(error);
    }
    stop(reason);
  };
  std::vector<ReusedThread> threads;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        body(rank);
      } catch (const std::exception& error) {
        failed(std::current_exception(), error.what());
      } catch (...) {
        failed(std::current_exception(), "unknown exception");
      }
    });
  }
  for (ReusedThread& thread : threads) thread.join();
  if (first) std::rethrow_exception(first);
}

}  // namespace sextant
