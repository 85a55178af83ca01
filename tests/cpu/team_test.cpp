// Threads that share the pieces of one work.
#include "backends/cpu/kernels/shared/team.h"

#include "actor/hosts/reused_thread.h"
#include "tests/support/forked_outcome.h"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
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

TEST_CASE("a team does without the helpers that cannot be started") {
  for (const int failing : {1, 2, 4}) {
    int started = 0;
    Team team(5, [&](std::function<void()> work) {
      if (++started == failing)
        throw std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again));
      return ReusedThread(std::move(work));
    });
    std::atomic<std::int64_t> sum = 0;
    for (int round = 0; round < 50; ++round)
      team.run(9, [&](std::int64_t piece, std::int64_t thread) {
        REQUIRE(thread < failing);
        sum += piece;
      });
    CHECK(sum == 50 * 36);
    CHECK(started == failing);  // once, not with every work
  }
}

// The helpers come when the work is over, or, if that waits for them, after a while.
TEST_CASE("nobody waits for a helper that has no piece") {
  std::atomic<bool> is_over = false, was_waited_for = false;
  const auto come_late = [&] {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(5);
    while (!is_over && !was_waited_for) {
      if (std::chrono::steady_clock::now() > end) was_waited_for = true;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  };
  Team team(3, [&](std::function<void()> work) {
    return ReusedThread([&come_late, own = std::move(work)] {
      come_late();
      own();
    });
  });
  int worked = 0;
  team.run(7, [&](std::int64_t, std::int64_t) { ++worked; });
  CHECK(worked == 7);
  CHECK(!was_waited_for);
  is_over = true;
}

#ifdef SEXTANT_CHECKED
TEST_CASE("work on a team inside a piece of work ends a checked build") {
  using testing::Outcome;
  Team outer(1), inner(1);
  const auto nothing = [](std::int64_t, std::int64_t) {};
  const auto run_inside = [&](Team& team) {
    return testing::outcome_of([&] {
      outer.run(2, [&](std::int64_t, std::int64_t) { team.run(2, nothing); });
      return false;
    });
  };
  CHECK(run_inside(outer) == Outcome::kAborted);
  CHECK(run_inside(inner) == Outcome::kAborted);
  CHECK(testing::outcome_of([&] {
          outer.run(2, nothing);
          inner.run(2, nothing);
          return false;
        }) == Outcome::kClean);
}
#endif

}  // namespace
}  // namespace sextant::team_test
