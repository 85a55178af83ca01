// How a caller ends a compile that it no longer wants.
#pragma once

#include <functional>
#include <utility>

namespace sextant {

// What a compile that was stopped is left by. No Error: nothing is wrong, there only is no result.
struct CompileStopped {};

// Asked between passes, and within long ones per stage and per class of ranks; from several
// threads.
class StopPoll {
 public:
  StopPoll() = default;
  explicit StopPoll(std::function<bool()> is_stopped) : is_stopped_(std::move(is_stopped)) {}

  // Throws CompileStopped where the caller says so.
  void operator()() const {
    if (is_stopped_ && is_stopped_()) throw CompileStopped();
  }
  // It changes no result.
  bool operator==(const StopPoll&) const { return true; }

 private:
  std::function<bool()> is_stopped_;
};

}  // namespace sextant
