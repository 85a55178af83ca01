// Ranks spread over processes decide together as the threads of one process do. Processes are
// members of a group of threads here.
#include "actor/hosts/rank_agreements.h"

#include "actor/hosts/rank_threads.h"

#include <doctest/doctest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace sextant::rank_agreements_test {
namespace {

// A job of `ranks` in `processes`, all of them here.
class Job {
 public:
  Job(std::size_t ranks, std::size_t processes) : blocks_(ranks, processes), groups_(processes) {
    for (std::size_t process = 0; process < processes; ++process)
      agreements_.push_back(std::make_unique<RankAgreements>(
          ranks, RankProcesses{groups_.of(Rank(process)), blocks_}));
  }
  RankAgreements& of_process(std::size_t process) { return *agreements_[process]; }
  void run(const std::function<void(Rank, HostAgreement&)>& body) {
    on_rank_threads(
        blocks_.num_ranks(),
        [&](std::size_t rank) { body(Rank(rank), home_of(Rank(rank)).of(Rank(rank))); },
        [&](const std::string& reason) { agreements_.back()->abort(reason); });
  }
  RankAgreements& home_of(Rank rank) { return *agreements_[blocks_.process_of(rank).index()]; }

 private:
  RankBlocks blocks_;
  ThreadHostGroups groups_;
  std::vector<std::unique_ptr<RankAgreements>> agreements_;
};

HostBytes bytes_of(std::size_t number) {
  return HostBytes(number % 4, static_cast<std::byte>(number));  // empty ones too
}

}  // namespace

TEST_CASE("every rank of every process gets what each one brought, in any number of rounds") {
  for (const auto& [ranks, processes] : {std::pair{1, 1}, {2, 2}, {5, 2}, {7, 3}, {4, 1}}) {
    const auto count = static_cast<std::size_t>(ranks);
    Job job(count, static_cast<std::size_t>(processes));
    std::atomic<int> wrong = 0;
    job.run([&](Rank rank, HostAgreement& group) {
      if (group.rank() != rank || group.size() != count) ++wrong;
      for (std::size_t round = 0; round < 50; ++round) {
        const std::vector<HostBytes> all = group.all_gather(bytes_of(rank.index() + round));
        if (all.size() != count) ++wrong;
        for (std::size_t other = 0; other < all.size(); ++other)
          if (all[other] != bytes_of(other + round)) ++wrong;
        const Rank root(round % count);
        const HostBytes own = rank == root ? bytes_of(round) : HostBytes{};
        if (group.broadcast(own, root) != bytes_of(round)) ++wrong;
      }
    });
    CHECK(wrong == 0);
  }
}

TEST_CASE("an error of one rank is that of all, in whatever process") {
  Job job(5, 2);
  std::atomic<int> refused = 0;
  job.run([&](Rank rank, HostAgreement& group) {
    try {
      group.agree_after([&] {
        if (rank.index() == 3) throw Error(ErrorCode::kInfeasible, "no room");
        if (rank.index() == 4) throw Error(ErrorCode::kDevice, "no card");
      });
    } catch (const Error& error) {
      if (error.code() == ErrorCode::kInfeasible && std::string(error.what()) == "no room")
        ++refused;
    }
    group.agree(std::nullopt);  // none went on alone
  });
  CHECK(refused == 5);
}

TEST_CASE("an abort in one process ends the rounds of all, and says who said so") {
  Job job(4, 2);
  std::atomic<int> ended = 0;
  job.run([&](Rank rank, HostAgreement& group) {
    if (rank.index() == 3) {
      group.abort("rank 3 is gone");
      return;
    }
    try {
      group.all_gather({});
    } catch (const Error& error) {
      if (error.code() == ErrorCode::kRankFailed &&
          std::string(error.what()).find("rank 3 is gone") != std::string::npos)
        ++ended;
    }
  });
  CHECK(ended == 3);
  CHECK_THROWS_AS(job.home_of(Rank(1)).of(Rank(1)).all_gather({}), Error);
}

TEST_CASE("a rank of another process, and blocks of another job, are refused") {
  Job job(4, 2);
  CHECK_THROWS_AS(job.of_process(0).of(Rank(3)), Error);
  ThreadHostGroups groups(2);
  const RankProcesses processes{groups.of(Rank(0)), RankBlocks(4, 2)};
  CHECK_THROWS_AS(RankAgreements(5, processes), Error);
}

TEST_CASE("ranks of one process need no group") {
  RankAgreements agreements(3, std::nullopt);
  std::atomic<int> wrong = 0;
  on_rank_threads(3, [&](std::size_t rank) {
    HostAgreement& group = agreements.of(Rank(rank));
    if (group.all_gather(bytes_of(rank + 1)).at(2) != bytes_of(3)) ++wrong;
    if (group.name_of(Rank(1)) != "rank 1") ++wrong;
  });
  CHECK(wrong == 0);
}

}  // namespace sextant::rank_agreements_test
