// The processes over which the ranks of a job are spread, as one of them sees them.
#pragma once

#include "actor/hosts/host_group.h"
#include "actor/hosts/rank_blocks.h"

#include <fmt/core.h>

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace sextant {

// Each process is a member of the group and has a block of ranks. Borrows the group.
struct RankProcesses {
  HostGroup& group;
  RankBlocks blocks;

  bool is_here(Rank rank) const { return blocks.process_of(rank) == group.rank(); }
  // Ends all processes, which hear who says so.
  void abort(const std::string& reason) const {
    group.abort(fmt::format("{} ({})", reason, group.name_of(group.rank())));
  }
};

// Of a job of `ranks`, those of this process: all where there are no processes.
inline std::vector<Rank> ranks_here(std::size_t ranks,
                                    const std::optional<RankProcesses>& processes) {
  return processes ? processes->blocks.ranks_of(processes->group.rank())
                   : RankBlocks(ranks, 1).ranks_of(Rank(0));
}

// `act` in all processes, or in none: an error of one is that of all.
inline void agree_after(const std::optional<RankProcesses>& processes,
                        const std::function<void()>& act) {
  if (processes)
    processes->group.agree_after(act);
  else
    act();
}

}  // namespace sextant
