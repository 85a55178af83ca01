// One mutex for the first error, one promise that all are there.
#include "actor/hosts/rank_threads.h"

#include "core/base/check.h"

#include <exception>
#include <future>
#include <mutex>
#include <utility>
#include <vector>

namespace sextant {

void on_rank_threads(std::size_t ranks, const std::function<void(std::size_t)>& body,
                     const std::function<void(const std::string&)>& stop,
                     const ThreadStart& start) {
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
  std::promise<bool> all_there;
  const std::shared_future<bool> may_begin = all_there.get_future().share();
  std::vector<ReusedThread> threads;
  try {
    for (std::size_t rank = 0; rank < ranks; ++rank)
      threads.push_back(start([&, rank] {
        try {
          if (may_begin.get()) body(rank);
        } catch (const std::exception& error) {
          failed(std::current_exception(), error.what());
        } catch (...) {
          failed(std::current_exception(), "unknown exception");
        }
      }));
  } catch (const std::exception& error) {
    all_there.set_value(false);
    for (ReusedThread& thread : threads) thread.join();
    fail(ErrorCode::kDevice, "{} of {} ranks have a thread: {}", threads.size(), ranks,
         error.what());
  }
  all_there.set_value(true);
  for (ReusedThread& thread : threads) thread.join();
  if (first) std::rethrow_exception(first);
}

}  // namespace sextant
