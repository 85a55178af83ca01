// Processes that ask each other how far their ranks have come, and hear when one is lost.
#include "backends/cuda/ranks/peer_progress.h"

#include "actor/hosts/host_group.h"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace sextant::peer_progress_test {
namespace {

using Counts = PeerProgress::Counts;

// Ranks 0 and 1 are in process 0, 2 and 3 in process 1.
RankProcesses process_of(ThreadHostGroups& groups, std::size_t process) {
  return {groups.of(Rank(process)), RankBlocks(4, 2)};
}

void ignore(const std::string&) {}

}  // namespace

TEST_CASE("a process answers for its ranks, from what they have come to") {
  ThreadHostGroups groups(2);
  std::atomic<std::int64_t> come = 5;
  PeerProgress first(
      process_of(groups, 0), [](Rank) { return Counts{}; }, ignore);
  PeerProgress second(
      process_of(groups, 1),
      [&](Rank rank) {
        return Counts{rank.value, come.load()};
      },
      ignore);
  CHECK(first.of(Rank(2)) == Counts{2, 5});
  CHECK(first.of(Rank(3)) == Counts{3, 5});
  come = 6;
  CHECK(first.of(Rank(3)) == Counts{3, 5});  // of this second
  CHECK(second.of(Rank(1)) == Counts{});
}

TEST_CASE("a process that does not answer is asked once a second, for half a second") {
  ThreadHostGroups groups(2);
  PeerProgress first(
      process_of(groups, 0), [](Rank) { return Counts{}; }, ignore);
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < 1000; ++i) CHECK(!first.of(Rank(i % 2 == 0 ? std::size_t{2} : 3)));
  const auto took = std::chrono::steady_clock::now() - begin;
  CHECK(took >= std::chrono::milliseconds(400));
  CHECK(took < std::chrono::seconds(5));
}

TEST_CASE("an abort of the group is heard once, with its reason, and questions end") {
  ThreadHostGroups groups(2);
  std::mutex mutex;
  std::vector<std::string> heard;
  {
    PeerProgress first(
        process_of(groups, 0), [](Rank) { return Counts{1}; },
        [&](const std::string& reason) {
          const std::lock_guard lock(mutex);
          heard.push_back(reason);
        });
    groups.abort("process 1 is gone");
    CHECK(!first.of(Rank(2)));
  }
  CHECK(heard == std::vector<std::string>{"process 1 is gone"});
}

}  // namespace sextant::peer_progress_test
