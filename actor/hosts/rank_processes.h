// The processes over which the ranks of a job are spread, as one of them sees them.
#pragma once

#include "actor/hosts/host_group.h"
#include "actor/hosts/rank_blocks.h"

#include <fmt/core.h>

#include <string>
#include <vector>

namespace sextant {

// Each process is a member of the group and has a block of ranks. Borrows the group.
struct RankProcesses {
  HostGroup& group;
  RankBlocks blocks;

  std::vector<Rank> own_ranks() const { return blocks.ranks_of(group.rank()); }
  bool is_here(Rank rank) const { return blocks.process_of(rank) == group.rank(); }
  // Ends all processes, which hear who says so.
  void abort(const std::string& reason) const {
    group.abort(fmt::format("{} ({})", reason, group.name_of(group.rank())));
  }
};

}  // namespace sextant
