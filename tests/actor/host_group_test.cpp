// Ranks of one process that tell each other something: all get it, all or none go on, nobody waits
// for ever.
#include "actor/hosts/host_group.h"

#include "actor/hosts/rank_threads.h"

#include <doctest/doctest.h>

#include <atomic>
#include <string>
#include <vector>

namespace sextant::host_group_test {
namespace {

HostBytes bytes_of_number(std::size_t number) {
  return HostBytes(number + 1, static_cast<std::byte>(number));
}

void run(ThreadHostGroups& groups, std::size_t ranks,
         const std::function<void(std::size_t, HostGroup&)>& body) {
  on_rank_threads(
      ranks, [&](std::size_t rank) { body(rank, groups.of(Rank(rank))); },
      [&](const std::string& reason) { groups.abort(reason); });
}

}  // namespace

TEST_CASE("every rank gets what each one brought, in any number of rounds") {
  for (const std::size_t ranks : {1, 2, 5}) {
    ThreadHostGroups groups(ranks);
    std::atomic<int> wrong = 0;
    run(groups, ranks, [&](std::size_t rank, HostGroup& group) {
      if (group.rank() != Rank(rank) || group.size() != ranks) ++wrong;
      for (std::size_t round = 0; round < 200; ++round) {
        const std::vector<HostBytes> all = group.all_gather(bytes_of_number(rank + round));
        if (all.size() != ranks) ++wrong;
        for (std::size_t other = 0; other < all.size(); ++other)
          if (all[other] != bytes_of_number(other + round)) ++wrong;
        const std::size_t root = round % ranks;
        const HostBytes own = rank == root ? bytes_of_number(round) : HostBytes{};
        if (group.broadcast(own, Rank(root)) != bytes_of_number(round)) ++wrong;
      }
    });
    CHECK(wrong == 0);
  }
}

TEST_CASE("all ranks agree, or each gets the error of the first that has one") {
  constexpr std::size_t kRanks = 4;
  ThreadHostGroups groups(kRanks);
  std::atomic<int> refused = 0;
  run(groups, kRanks, [&](std::size_t rank, HostGroup& group) {
    group.agree(std::nullopt);
    std::optional<Error> own;
    if (rank == 1)
      own.emplace(ErrorCode::kInfeasible, "no room", std::vector<std::string>{"a", ""});
    if (rank == 3) own.emplace(ErrorCode::kDevice, "no card");
    try {
      group.agree(own);
    } catch (const Error& error) {
      const bool is_first = error.code() == ErrorCode::kInfeasible &&
                            std::string(error.what()) == "no room" &&
                            error.hints() == std::vector<std::string>{"a", ""};
      if (is_first) ++refused;
    }
    group.agree(std::nullopt);  // none went on alone
  });
  CHECK(refused == kRanks);
}

TEST_CASE("a rank that fails ends the calls of the others with its reason") {
  ThreadHostGroups groups(3);
  std::atomic<int> ended = 0;
  try {
    run(groups, 3, [&](std::size_t rank, HostGroup& group) {
      if (rank == 2) throw Error(ErrorCode::kBadInput, "rank 2 is gone");
      try {
        group.all_gather({});
      } catch (const Error& error) {
        if (std::string(error.what()).find("rank 2 is gone") != std::string::npos) ++ended;
        throw;
      }
    });
    FAIL("no error");
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::kBadInput);
  }
  CHECK(ended == 2);
}

}  // namespace sextant::host_group_test
