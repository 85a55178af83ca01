// Ranks that begin and end together, and whether one of them keeps the others waiting: what they
// wait for then is no launch of a device, so no device says who is missing. Knows no clock: its
// owner has one, and looks.
#pragma once

#include "core/base/ids.h"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sextant {

// Any thread.
class AgreementWatch {
 public:
  using Patience = std::chrono::milliseconds;

  // `ranks`: those of this process, of `job_ranks`. `now`: since whenever; never goes back.
  AgreementWatch(std::vector<Rank> ranks, std::size_t job_ranks,
                 std::function<std::chrono::nanoseconds()> now);

  // A rank's wait for all others, who make the same wait; `leave` also of a rank that is in none.
  void enter(Rank rank, std::string_view name, Patience patience);
  void leave(Rank rank);
  class Wait {
   public:
    // `watch` nullptr: nobody looks.
    Wait(AgreementWatch* watch, Rank rank, std::string_view name, Patience patience)
        : watch_(watch), rank_(rank) {
      if (watch_ != nullptr) watch_->enter(rank_, name, patience);
    }
    ~Wait() {
      if (watch_ != nullptr) watch_->leave(rank_);
    }
    Wait(const Wait&) = delete;
    Wait& operator=(const Wait&) = delete;

   private:
    AgreementWatch* const watch_;
    const Rank rank_;
  };

  // Who waits in what and for whom, once no rank has come to a meeting or left one for the patience
  // of one that is in it.
  std::optional<std::string> late() const;

 private:
  struct Member {
    Rank rank;
    std::int64_t meetings = 0;  // that it came to
    std::string meeting;        // it is in; empty: none
    Patience patience{0};
  };

  Member& member(Rank rank);
  std::string text_of(const Member& waiting) const;

  const std::size_t job_ranks_;
  const std::function<std::chrono::nanoseconds()> now_;
  mutable std::mutex mutex_;  // of what follows
  std::vector<Member> members_;
  std::chrono::nanoseconds last_change_;
};

}  // namespace sextant
