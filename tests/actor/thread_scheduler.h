// Threads that run one at a time. At every lock, wait, start and end one of those that can go on is
// drawn by a seed; each has a weight for the whole run, so that in some runs one is far behind the
// others. What nobody can get out of is said instead of waited for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <utility>
#include <vector>

namespace sextant::testing {

class ThreadScheduler {
 public:
  class Task;

  // `unlock`: called by one of the threads, once, when none can go on; lets one go on, and takes no
  // lock that is held.
  ThreadScheduler(std::uint64_t seed, std::function<void()> unlock);
  ~ThreadScheduler();
  ThreadScheduler(const ThreadScheduler&) = delete;
  ThreadScheduler& operator=(const ThreadScheduler&) = delete;

  // The calling thread takes part until `work` is over, and with it all that it has started.
  void run(const std::function<void()>& work);

  // Of the thread that calls, which takes part.
  static ThreadScheduler& current();
  static Task& own_task();
  // Another may go on here.
  void point();
  // Goes on when somebody has woken it.
  void block();
  static void wake(Task& task);
  // Wakes all, and forgets them.
  static void wake_all(std::vector<Task*>& tasks);
  Task& start(std::function<void()> work);
  void join(Task& task);
  std::uint64_t draw() { return random_(); }
  std::int64_t turns() const { return turns_; }

 private:
  Task& add();
  Task* next();
  void hand_over();
  void finish(Task& task);

  std::mt19937_64 random_;
  std::function<void()> unlock_;
  std::vector<std::unique_ptr<Task>> tasks_;
  bool was_stuck_ = false;
  bool is_unlocking_ = false;  // the one that calls is alone
  std::int64_t turns_ = 0;
};

// Threads, locks and conditions of the current scheduler (a ThreadKit).
struct ScheduledThreads {
  class Mutex {
   public:
    void lock();
    void unlock();
    // As unlock(), and the calling thread goes on.
    void release();

   private:
    ThreadScheduler::Task* owner_ = nullptr;
    std::vector<ThreadScheduler::Task*> waiting_;
  };

  class Condition {
   public:
    template <typename Predicate>
    void wait(std::unique_lock<Mutex>& lock, const Predicate& holds) {
      while (!holds()) sleep(*lock.mutex());
    }
    void notify_all();

   private:
    void sleep(Mutex& mutex);
    std::vector<ThreadScheduler::Task*> sleeping_;
  };

  class Thread {
   public:
    Thread() = default;
    explicit Thread(std::function<void()> work)
        : task_(&ThreadScheduler::current().start(std::move(work))) {}
    ~Thread() { join(); }
    Thread(const Thread&) = delete;
    Thread& operator=(Thread&& other) noexcept;
    void join();

   private:
    ThreadScheduler::Task* task_ = nullptr;
  };
};

}  // namespace sextant::testing
