// Helpers sleep until there is a job, take pieces of it by a counter, and say when they are out.
#include "backends/cpu/kernels/shared/team.h"

#include "actor/hosts/reused_thread.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace sextant {
namespace {

// Kernels of a step follow each other closer than a thread takes to wake up.
constexpr std::chrono::microseconds kWatchful{50};

// The exception of the smallest piece that threw.
class FirstFailure {
 public:
  void note(std::int64_t piece) {
    const std::lock_guard lock(mutex_);
    if (failure_ != nullptr && piece_ < piece) return;
    piece_ = piece;
    failure_ = std::current_exception();
  }
  void rethrow() const {
    if (failure_ != nullptr) std::rethrow_exception(failure_);
  }

 private:
  std::mutex mutex_;
  std::int64_t piece_ = 0;
  std::exception_ptr failure_;
};

// Looks at `condition` for a while before the caller goes to sleep for it.
template <typename Condition>
bool watch(const Condition& condition) {
  const auto until = std::chrono::steady_clock::now() + kWatchful;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > until) return false;
    std::this_thread::yield();
  }
  return true;
}

}  // namespace

struct Team::Helpers {
  explicit Helpers(std::int64_t count) {
    for (std::int64_t thread = 1; thread <= count; ++thread)
      threads.emplace_back([this, thread] { help(thread); });
  }
  ~Helpers() {
    {
      const std::lock_guard lock(mutex);
      ending = true;
      job.fetch_add(1);
    }
    changed.notify_all();
    for (ReusedThread& thread : threads) thread.join();
  }

  void help(std::int64_t thread) {
    for (std::int64_t seen = 0;;) {
      const auto is_new = [&] { return job.load() != seen; };
      if (!watch(is_new)) {
        std::unique_lock lock(mutex);
        changed.wait(lock, is_new);
      }
      ++seen;
      if (ending) return;
      take_pieces(thread);
      leave();
    }
  }

  void take_pieces(std::int64_t thread) {
    for (std::int64_t piece = next.fetch_add(1); piece < pieces; piece = next.fetch_add(1)) {
      try {
        (*work)(piece, thread);
      } catch (...) {
        failure->note(piece);
      }
    }
  }

  void leave() {
    if (inside.fetch_sub(1) > 1) return;
    const std::lock_guard lock(mutex);
    all_out.notify_all();
  }

  void run(std::int64_t count, const Work& given) {
    FirstFailure first;
    {
      const std::lock_guard lock(mutex);
      pieces = count;
      work = &given;
      failure = &first;
      next = 0;
      inside = static_cast<std::int64_t>(threads.size());
      job.fetch_add(1);
    }
    changed.notify_all();
    take_pieces(0);
    const auto is_over = [this] { return inside.load() == 0; };
    if (!watch(is_over)) {
      std::unique_lock lock(mutex);
      all_out.wait(lock, is_over);
    }
    first.rethrow();
  }

  std::mutex used;  // by whoever has the helpers
  std::mutex mutex;
  std::condition_variable changed, all_out;
  std::atomic<std::int64_t> job{0}, next{0}, inside{0};
  std::atomic<bool> ending{false};
  std::int64_t pieces = 0;
  const Work* work = nullptr;
  FirstFailure* failure = nullptr;
  std::vector<ReusedThread> threads;  // last: they read the others
};

Team::Team(std::int64_t threads) : threads_(std::max<std::int64_t>(threads, 1)) {}

Team::~Team() = default;

void Team::run(std::int64_t pieces, const Work& work) {
  std::unique_lock<std::mutex> own;
  if (threads_ > 1 && pieces > 1) {
    std::call_once(started_, [this] { helpers_ = std::make_unique<Helpers>(threads_ - 1); });
    own = std::unique_lock(helpers_->used, std::try_to_lock);
  }
  if (own.owns_lock()) return helpers_->run(pieces, work);
  for (std::int64_t piece = 0; piece < pieces; ++piece) work(piece, 0);
}

}  // namespace sextant
