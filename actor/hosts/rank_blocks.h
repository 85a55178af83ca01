// Which process has which ranks: neighbours stay together, in blocks whose sizes differ by one at
// most.
#pragma once

#include "core/base/ids.h"

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace sextant {

class RankBlocks {
 public:
  // Throws Error(kUsage) where a process would have no rank.
  RankBlocks(std::size_t ranks, std::size_t processes);

  std::size_t num_ranks() const { return ranks_; }
  std::size_t num_processes() const { return processes_; }
  Rank first_of(Rank process) const;
  std::size_t size_of(Rank process) const;
  std::vector<Rank> ranks_of(Rank process) const;
  Rank process_of(Rank rank) const;
  // The numbers of the processes that have `ranks`, one for each of them.
  std::vector<std::size_t> processes_of(std::span<const Rank> ranks) const;
  // "rank 3", "ranks 2 to 5".
  std::string text_of(Rank process) const;

 private:
  std::size_t ranks_, processes_;
};

}  // namespace sextant
