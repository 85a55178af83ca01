// A baton: whoever has it runs and alone touches what stands here, until it hands it over.
#include "tests/actor/thread_scheduler.h"

#include <array>
#include <cstdio>
#include <cstdlib>
#include <semaphore>
#include <thread>
#include <utility>

namespace sextant::testing {

class ThreadScheduler::Task {
 public:
  Task(ThreadScheduler& scheduler, std::uint64_t weight) : scheduler(scheduler), weight(weight) {}

  ThreadScheduler& scheduler;
  const std::uint64_t weight;
  std::binary_semaphore turn{0};
  bool is_ready = true, is_over = false;
  std::vector<Task*> joining;
  std::thread thread;
};

namespace {

// Of the thread that asks: locks are made and taken without being told who runs them.
thread_local ThreadScheduler::Task* task_of_thread = nullptr;

[[noreturn]] void end_with(const char* text) {
  std::fprintf(stderr, "%s\n", text);
  std::abort();
}

}  // namespace

ThreadScheduler::ThreadScheduler(std::uint64_t seed, std::function<void()> unlock)
    : random_(seed), unlock_(std::move(unlock)) {}

ThreadScheduler::~ThreadScheduler() = default;

ThreadScheduler& ThreadScheduler::current() { return own_task().scheduler; }

ThreadScheduler::Task& ThreadScheduler::own_task() {
  if (task_of_thread == nullptr) end_with("a thread that takes no part");
  return *task_of_thread;
}

ThreadScheduler::Task& ThreadScheduler::add() {
  constexpr std::array<std::uint64_t, 3> kWeights{1, 8, 64};
  tasks_.push_back(std::make_unique<Task>(*this, kWeights[random_() % kWeights.size()]));
  return *tasks_.back();
}

void ThreadScheduler::run(const std::function<void()>& work) {
  task_of_thread = &add();
  work();
  for (const auto& task : tasks_)
    if (task.get() != task_of_thread && !task->is_over) end_with("a thread was left behind");
  task_of_thread = nullptr;
}

// Of those that can go on one; nullptr: none can.
ThreadScheduler::Task* ThreadScheduler::next() {
  std::uint64_t sum = 0;
  for (const auto& task : tasks_)
    if (task->is_ready) sum += task->weight;
  if (sum == 0) return nullptr;
  std::uint64_t drawn = random_() % sum;
  for (const auto& task : tasks_) {
    if (!task->is_ready) continue;
    if (drawn < task->weight) return task.get();
    drawn -= task->weight;
  }
  return nullptr;
}

void ThreadScheduler::hand_over() {
  Task& own = own_task();
  Task* to = next();
  if (to == nullptr) {
    if (std::exchange(was_stuck_, true)) end_with("no thread can go on, again");
    is_unlocking_ = true;
    unlock_();
    is_unlocking_ = false;
    to = next();
    if (to == nullptr) end_with("no thread can go on");
  }
  if (to == &own) return;
  ++turns_;
  to->turn.release();
  if (!own.is_over) own.turn.acquire();
}

void ThreadScheduler::point() {
  if (!is_unlocking_) hand_over();
}

void ThreadScheduler::block() {
  if (is_unlocking_) end_with("a lock is held while no thread can go on");
  own_task().is_ready = false;
  hand_over();
}

void ThreadScheduler::wake(Task& task) { task.is_ready = true; }

void ThreadScheduler::wake_all(std::vector<Task*>& tasks) {
  for (Task* const task : tasks) wake(*task);
  tasks.clear();
}

ThreadScheduler::Task& ThreadScheduler::start(std::function<void()> work) {
  Task& task = add();
  task.thread = std::thread([this, &task, work = std::move(work)] {
    task_of_thread = &task;
    task.turn.acquire();
    work();
    finish(task);
  });
  point();
  return task;
}

void ThreadScheduler::finish(Task& task) {
  task.is_over = true;
  task.is_ready = false;
  wake_all(task.joining);
  hand_over();
}

void ThreadScheduler::join(Task& task) {
  while (!task.is_over) {
    task.joining.push_back(&own_task());
    block();
  }
  task.thread.join();
}

void ScheduledThreads::Mutex::lock() {
  ThreadScheduler& scheduler = ThreadScheduler::current();
  scheduler.point();
  while (owner_ != nullptr) {
    waiting_.push_back(&ThreadScheduler::own_task());
    scheduler.block();
  }
  owner_ = &ThreadScheduler::own_task();
}

void ScheduledThreads::Mutex::release() {
  owner_ = nullptr;
  ThreadScheduler::wake_all(waiting_);
}

void ScheduledThreads::Mutex::unlock() {
  release();
  ThreadScheduler::current().point();
}

// Somebody may tell, without the lock, between the look and the sleep: he is not heard.
void ScheduledThreads::Condition::sleep(Mutex& mutex) {
  ThreadScheduler& scheduler = ThreadScheduler::current();
  scheduler.point();
  sleeping_.push_back(&ThreadScheduler::own_task());
  mutex.release();
  scheduler.block();
  mutex.lock();
}

void ScheduledThreads::Condition::notify_all() {
  ThreadScheduler::wake_all(sleeping_);
  ThreadScheduler::current().point();
}

ScheduledThreads::Thread& ScheduledThreads::Thread::operator=(Thread&& other) noexcept {
  join();
  task_ = std::exchange(other.task_, nullptr);
  return *this;
}

void ScheduledThreads::Thread::join() {
  if (task_ != nullptr) ThreadScheduler::current().join(*std::exchange(task_, nullptr));
}

}  // namespace sextant::testing
