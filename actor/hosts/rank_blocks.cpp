// Process p of n begins at rank p * ranks / n, rounded down.
#include "actor/hosts/rank_blocks.h"

#include "core/base/check.h"

namespace sextant {

RankBlocks::RankBlocks(std::size_t ranks, std::size_t processes)
    : ranks_(ranks), processes_(processes) {
  require(processes > 0 && processes <= ranks, ErrorCode::kUsage,
          "the plan has {} ranks, which {} processes cannot share: start {} or fewer", ranks,
          processes, ranks);
}

Rank RankBlocks::first_of(Rank process) const {
  return Rank(process.index() * ranks_ / processes_);
}

std::size_t RankBlocks::size_of(Rank process) const {
  return first_of(Rank(process.index() + 1)).index() - first_of(process).index();
}

std::vector<Rank> RankBlocks::ranks_of(Rank process) const {
  std::vector<Rank> ranks;
  for (std::size_t i = 0; i < size_of(process); ++i)
    ranks.emplace_back(first_of(process).index() + i);
  return ranks;
}

Rank RankBlocks::process_of(Rank rank) const {
  return Rank(((rank.index() + 1) * processes_ - 1) / ranks_);
}

std::vector<std::size_t> RankBlocks::processes_of(std::span<const Rank> ranks) const {
  std::vector<std::size_t> processes;
  for (const Rank rank : ranks) processes.push_back(process_of(rank).index());
  return processes;
}

std::string RankBlocks::text_of(Rank process) const {
  const std::size_t first = first_of(process).index(), size = size_of(process);
  return size == 1 ? fmt::format("rank {}", first)
                   : fmt::format("ranks {} to {}", first, first + size - 1);
}

}  // namespace sextant
