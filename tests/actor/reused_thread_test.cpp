// Works run side by side, are over after `join`, and a thread that is done gets the next work.
#include "actor/hosts/reused_thread.h"

#include <doctest/doctest.h>

#include <atomic>
#include <barrier>
#include <memory>
#include <set>
#include <thread>
#include <utility>
#include <vector>

namespace sextant::reused_thread_test {

TEST_CASE("works that wait for each other all run, however many they are") {
  constexpr int kWorks = 70;
  for (int round = 0; round < 20; ++round) {
    std::barrier all(kWorks);
    int results[kWorks] = {};  // of each work; no lock: `join` makes it visible
    {
      std::vector<ReusedThread> threads;
      for (int i = 0; i < kWorks; ++i)
        threads.emplace_back([&, i] {
          all.arrive_and_wait();
          results[i] = round + i;
        });
    }
    for (int i = 0; i < kWorks; ++i) CHECK(results[i] == round + i);
  }
}

TEST_CASE("who joins one thread and begins another gets the same thread") {
  std::set<std::thread::id> ids;
  for (int i = 0; i < 50; ++i) {
    std::thread::id id;
    ReusedThread([&] { id = std::this_thread::get_id(); }).join();
    CHECK(id != std::this_thread::get_id());
    ids.insert(id);
  }
  CHECK(ids.size() == 1);
}

TEST_CASE("a work is let go before `join` returns, and an empty thread has nothing to join") {
  auto held = std::make_shared<int>(1);
  ReusedThread thread([held] { CHECK(held.use_count() > 1); });
  thread.join();
  CHECK(held.use_count() == 1);
  thread.join();
  ReusedThread empty;
  empty.join();
}

TEST_CASE("a thread that gets another's work ends its own first") {
  std::atomic<bool> first_is_over{false}, may_end{false};
  ReusedThread thread([&] {
    while (!may_end) std::this_thread::yield();
    first_is_over = true;
  });
  ReusedThread other([&] { may_end = true; });
  thread = std::move(other);
  CHECK(first_is_over);
  thread.join();
  CHECK(may_end);
}

}  // namespace sextant::reused_thread_test
