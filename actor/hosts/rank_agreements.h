// What the ranks of a job decide together, wherever they are: those of this process are threads,
// the others are in other processes.
#pragma once

#include "actor/hosts/host_group.h"
#include "actor/hosts/rank_processes.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace sextant {

// In a round the ranks of each process meet, the first of them exchanges what they brought with the
// other processes, and they meet again for what it got.
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
  HostGroup& here(Rank rank);
  std::vector<HostBytes> gather(Rank rank, std::span<const std::byte> own);
  HostBytes exchanged(std::vector<HostBytes> own);

  const std::optional<RankProcesses> processes_;
  const std::vector<Rank> own_ranks_;
  ThreadHostGroups threads_;                      // of the own ranks, by position
  std::uint64_t rounds_ = 0;                      // over processes; of the first own rank
  std::once_flag tells_;                          // the other processes of an abort
  std::vector<std::unique_ptr<Member>> members_;  // by rank; nullptr: in another process
};

}  // namespace sextant
