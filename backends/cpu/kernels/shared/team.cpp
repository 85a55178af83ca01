// Helpers sleep until a job has a place for them, take pieces of it by a counter, and say when they
// are out. A job that is over has no places, so nobody waits for a helper that wakes up too late.
#include "backends/cpu/kernels/shared/team.h"

#include "core/base/check.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>
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

// While this thread has work on a team; work inside of that is refused.
class Inside {
 public:
  Inside() {
    SEXTANT_INVARIANT(!is_inside, "work on a team inside a piece of work on a team");
    is_inside = true;
  }
  ~Inside() { is_inside = false; }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;

 private:
  static thread_local bool is_inside;
};

thread_local bool Inside::is_inside = false;

}  // namespace

struct Team::Helpers {
  Helpers(std::int64_t count, const Start& start) {
    // Nothing may throw once a helper has begun but the start of the next one.
    threads.reserve(static_cast<std::size_t>(count));
    try {
      for (std::int64_t thread = 1; thread <= count; ++thread)
        threads.push_back(start([this, thread] { help(thread); }));
    } catch (const std::exception&) {
      // Results do not depend on how many there are.
    }
  }
  ~Helpers() {
    {
      const std::lock_guard lock(mutex);
      ending = true;
    }
    changed.notify_all();
    for (ReusedThread& thread : threads) thread.join();
  }

  void help(std::int64_t thread) {
    while (enter()) {
      {
        const Inside here;
        take_pieces(thread);
      }
      leave();
    }
  }

  // Waits for a place in a job; false: there will be none.
  bool enter() {
    const auto is_wanted = [this] { return places > 0 || ending; };
    watch(is_wanted);
    std::unique_lock lock(mutex);
    changed.wait(lock, is_wanted);
    if (ending) return false;
    --places;
    ++inside;
    return true;
  }

  void leave() {
    if (inside.fetch_sub(1) > 1) return;
    const std::lock_guard lock(mutex);
    all_out.notify_all();
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

  void open(std::int64_t count, const Work& given, FirstFailure& first) {
    const std::int64_t wanted = std::min(count - 1, static_cast<std::int64_t>(threads.size()));
    {
      const std::lock_guard lock(mutex);
      pieces = count;
      work = &given;
      failure = &first;
      next = 0;
      places = wanted;
    }
    for (std::int64_t i = 0; i < wanted; ++i) changed.notify_one();
  }

  void close() {
    {
      const std::lock_guard lock(mutex);
      places = 0;
    }
    const auto is_over = [this] { return inside == 0; };
    if (watch(is_over)) return;
    std::unique_lock lock(mutex);
    all_out.wait(lock, is_over);
  }

  void run(std::int64_t count, const Work& given) {
    FirstFailure first;
    open(count, given, first);
    take_pieces(0);
    close();
    first.rethrow();
  }

  std::mutex used;   // by whoever has the helpers
  std::mutex mutex;  // of the job: what it is, and who may still come
  std::condition_variable changed, all_out;
  std::atomic<std::int64_t> places{0}, next{0}, inside{0};
  std::atomic<bool> ending{false};
  std::int64_t pieces = 0;
  const Work* work = nullptr;
  FirstFailure* failure = nullptr;
  std::vector<ReusedThread> threads;  // last: they read the others
};

Team::Team(std::int64_t threads)
    : Team(threads, [](std::function<void()> work) { return ReusedThread(std::move(work)); }) {}

Team::Team(std::int64_t threads, Start start)
    : threads_(std::max<std::int64_t>(threads, 1)), start_(std::move(start)) {}

Team::~Team() = default;

void Team::note(std::int64_t pieces) {
  std::int64_t most = most_pieces_;
  while (most < pieces && !most_pieces_.compare_exchange_weak(most, pieces)) {
  }
}

void Team::run(std::int64_t pieces, const Work& work) {
  const Inside here;
  note(pieces);
  std::unique_lock<std::mutex> own;
  if (threads_ > 1 && pieces > 1) {
    std::call_once(started_,
                   [this] { helpers_ = std::make_unique<Helpers>(threads_ - 1, start_); });
    own = std::unique_lock(helpers_->used, std::try_to_lock);
  }
  if (own.owns_lock()) return helpers_->run(pieces, work);
  for (std::int64_t piece = 0; piece < pieces; ++piece) work(piece, 0);
}

}  // namespace sextant
