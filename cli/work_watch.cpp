// Waits for the end of the work, a moment at a time.
#include "cli/work_watch.h"

#include <chrono>
#include <cstdio>
#include <exception>
#include <utility>

namespace sextant {
namespace {

// mpirun kills an eighth of a second after its signal.
constexpr double kTick_s = 0.02;

void call(const std::function<void()>& duty) {
  if (duty) duty();
}

}  // namespace

WorkWatch::WorkWatch(Duties duties) : duties_(std::move(duties)), thread_([this] { watch(); }) {}

WorkWatch::~WorkWatch() {
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
  }
  over_.notify_all();
  thread_.join();
}

bool WorkWatch::is_over_within(double seconds) {
  std::unique_lock lock(mutex_);
  return over_.wait_for(lock, std::chrono::duration<double>(seconds), [this] { return is_over_; });
}

void WorkWatch::watch() {
  while (!is_over_within(kTick_s)) {
    if (was_interrupted()) return end_work();
    call(duties_.show);
  }
}

void WorkWatch::end_work() {
  call(duties_.ask_to_end);
  if (is_over_within(duties_.grace_s)) return;
  try {
    call(duties_.last_words);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
  }
  std::fflush(stdout);
  end_interrupted();
}

}  // namespace sextant
