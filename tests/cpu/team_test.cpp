// Threads that share the pieces of one work.
#include "backends/cpu/kernels/shared/team.h"

#include <doctest/doctest.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace sextant::team_test {
namespace {

TEST_CASE("every piece is worked on once, by a thread of the team") {
  for (const std::int64_t threads : {1, 2, 5}) {
    Team team(threads);
    for (int round = 0; round < 200; ++round) {
      const std::int64_t pieces = round % 9;
      std::vector<int> worked(static_cast<std::size_t>(pieces));
      team.run(pieces, [&](std::int64_t piece, std::int64_t thread) {
        REQUIRE((thread >= 0 && thread < threads));
        ++worked[static_cast<std::size_t>(piece)];
      });
      CHECK(worked == std::vector<int>(static_cast<std::size_t>(pieces), 1));
    }
  }
}

// Neither of two pieces ends before both have begun.
TEST_CASE("pieces are worked on at the same time") {
  Team team(2);
  std::atomic<int> begun = 0;
  std::atomic<std::int64_t> sum = 0;
  team.run(2, [&](std::int64_t, std::int64_t thread) {
    ++begun;
    while (begun < 2) std::this_thread::yield();
    sum += thread;
  });
  CHECK(sum == 1);  // threads 0 and 1
}

TEST_CASE("the exception of the smallest piece goes on, and the team works again") {
  Team team(3);
  for (int round = 0; round < 20; ++round) {
    std::string found;
    try {
      team.run(8, [](std::int64_t piece, std::int64_t) {
        if (piece >= 2) throw std::runtime_error(std::to_string(piece));
      });
    } catch (const std::runtime_error& error) {
      found = error.what();
    }
    CHECK(found == "2");
  }
}

TEST_CASE("two callers at one time both get all of their pieces done") {
  Team team(2);
  std::atomic<std::int64_t> sum = 0;
  const auto call = [&] {
    for (int round = 0; round < 300; ++round)
      team.run(4, [&](std::int64_t piece, std::int64_t) { sum += piece; });
  };
  std::thread other(call);
  call();
  other.join();
  CHECK(sum == 2 * 300 * 6);
}

}  // namespace
}  // namespace sextant::team_test
