// What the ranks of a job decide together, wherever they are: those of this process are threads,
// the others are in other processes.
#pragma once

#include "actor/hosts/host_group.h"
#include "actor/hosts/rank_processes.h"

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace sextant {

// In a round the ranks of each process meet, the last of them exchanges what they brought with the
// other processes, and all go on. Nobody can be in the round after the next: it would need all
// ranks to have left this one.
class RankAgreements {
 public:
  // Without processes all ranks are in this one. Borrows their group, whose messages of
  // HostSubject::kRanks are for this alone.
  RankAgreements(std::size_t ranks, const std::optional<RankProcesses>& processes);
  ~RankAgreements();
  RankAgreements(const RankAgreements&) = delete;
  RankAgreements& operator=(const RankAgreements&) = delete;

  // A rank of this process.
  HostAgreement& of(Rank rank);
  // Ends the calls of all ranks, in other processes too.
  void abort(const std::string& reason);

 private:
  class Member;
  std::vector<HostBytes> gather(Rank rank, std::span<const std::byte> own);
  void exchange(std::unique_lock<std::mutex>& lock);
  std::vector<HostBytes> gather_over_processes(std::vector<HostBytes> own, std::uint64_t round);

  const std::optional<RankProcesses> processes_;
  const std::vector<Rank> own_ranks_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<HostBytes> brought_;   // in this round, by position among the own ranks
  std::vector<HostBytes> gathered_;  // in the last one, by rank
  std::size_t arrived_ = 0;
  std::uint64_t rounds_ = 0;  // that are complete
  std::optional<std::string> abort_reason_;
  std::vector<std::unique_ptr<Member>> members_;  // by rank; nullptr: in another process
};

}  // namespace sextant
