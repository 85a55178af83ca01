// Ranks over processes: everyone has one home, neighbours stay together.
#include "actor/hosts/rank_blocks.h"

#include "core/base/check.h"

#include <doctest/doctest.h>

namespace sextant::rank_blocks_test {

TEST_CASE("every rank is in one process, in blocks that differ by one at most") {
  for (std::size_t ranks = 1; ranks <= 40; ++ranks)
    for (std::size_t processes = 1; processes <= ranks; ++processes) {
      const RankBlocks blocks(ranks, processes);
      std::size_t next = 0;
      for (std::size_t p = 0; p < processes; ++p) {
        const std::vector<Rank> own = blocks.ranks_of(Rank(p));
        CHECK(blocks.processes_of(own) == std::vector<std::size_t>(own.size(), p));
        CHECK(own.size() >= ranks / processes);
        CHECK(own.size() <= (ranks + processes - 1) / processes);
        for (const Rank rank : own) {
          CHECK(rank == Rank(next++));
          CHECK(blocks.process_of(rank) == Rank(p));
        }
      }
      CHECK(next == ranks);
    }
}

TEST_CASE("more processes than ranks are refused") {
  CHECK_THROWS_WITH_AS(RankBlocks(2, 3),
                       "the plan has 2 ranks, which 3 processes cannot share: "
                       "start 2 or fewer",
                       Error);
  CHECK(RankBlocks(4, 3).text_of(Rank(0)) == "rank 0");
  CHECK(RankBlocks(4, 3).text_of(Rank(2)) == "ranks 2 to 3");
}

}  // namespace sextant::rank_blocks_test
