// A list of idle workers. A worker enters it after its owner has seen the work end, so that who
// joins one thread and begins another gets the same one.
#include "actor/hosts/reused_thread.h"

#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace sextant {

// One thread and its mailbox. The thread holds the worker too: it may wait longer than any owner.
class ReusedThread::Worker : public std::enable_shared_from_this<Worker> {
 public:
  // One that is idle, or a new one.
  static std::shared_ptr<Worker> take() {
    Idle& idle = idle_workers();
    const std::lock_guard lock(idle.mutex);
    if (idle.workers.empty()) {
      auto worker = std::make_shared<Worker>();
      std::thread([worker] { worker->serve(); }).detach();
      return worker;
    }
    std::shared_ptr<Worker> worker = std::move(idle.workers.back());
    idle.workers.pop_back();
    return worker;
  }

  void begin(std::function<void()> work) {
    {
      const std::lock_guard lock(mutex_);
      work_ = std::move(work);
      is_busy_ = true;
    }
    changed_.notify_all();
  }

  void finish() {
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return !is_busy_; });
    }
    Idle& idle = idle_workers();
    const std::lock_guard lock(idle.mutex);
    idle.workers.push_back(shared_from_this());
  }

 private:
  struct Idle {
    std::mutex mutex;
    std::vector<std::shared_ptr<Worker>> workers;
  };
  // Never destroyed: idle threads may still wait while the process ends.
  static Idle& idle_workers() {
    static auto* const idle = new Idle;
    return *idle;
  }

  void serve() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [&] { return is_busy_; });
      std::function<void()> work = std::move(work_);
      lock.unlock();
      work();
      work = nullptr;  // what it holds ends before its owner goes on
      lock.lock();
      is_busy_ = false;
      changed_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::function<void()> work_;
  bool is_busy_ = false;
};

ReusedThread::ReusedThread(std::function<void()> work) : worker_(Worker::take()) {
  worker_->begin(std::move(work));
}

ReusedThread::~ReusedThread() { join(); }

ReusedThread& ReusedThread::operator=(ReusedThread&& other) noexcept {
  join();
  worker_ = std::move(other.worker_);
  return *this;
}

void ReusedThread::join() {
  if (!worker_) return;
  worker_->finish();
  worker_.reset();
}

}  // namespace sextant
