// How far the ranks of other processes have come, and that a process is lost: what processes of a
// job tell each other while their devices run and no rank speaks for itself.
#pragma once

#include "actor/hosts/rank_processes.h"
#include "actor/hosts/reused_thread.h"
#include "core/base/ids.h"

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace sextant {

class PeerProgress {
 public:
  // Of a rank, by group: how many communications it has begun.
  using Counts = std::vector<std::int64_t>;

  // Borrows the group, whose messages of HostSubject::kProgress are for this alone. On a thread of
  // its own, `own` answers for ranks of this process, and `lost` gets the reason, once, when the
  // group is aborted.
  PeerProgress(const RankProcesses& processes, std::function<Counts(Rank)> own,
               std::function<void(const std::string&)> lost);
  // Hears no more.
  ~PeerProgress();
  PeerProgress(const PeerProgress&) = delete;
  PeerProgress& operator=(const PeerProgress&) = delete;

  // What the process of a rank answers, or has answered within the last second; nothing: it did not
  // for `kPatience`, or the group is aborted. Any thread.
  std::optional<Counts> of(Rank rank);

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::milliseconds kPatience{500}, kIsNew{1000};
  struct Answer {
    Clock::time_point when;
    std::optional<Counts> counts;
  };

  void hear();
  std::optional<Counts> ask(Rank rank);

  const RankProcesses processes_;
  const std::function<Counts(Rank)> own_;
  const std::function<void(const std::string&)> lost_;
  std::mutex mutex_;  // of what follows: one question at a time
  std::uint64_t questions_ = 0;
  std::map<Rank, Answer> answers_;
  ReusedThread hearing_;
};

}  // namespace sextant
