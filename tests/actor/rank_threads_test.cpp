// Ranks begin together, or none does; the first error stops the others.
#include "actor/hosts/rank_threads.h"

#include "core/base/error.h"

#include <doctest/doctest.h>

#include <atomic>
#include <barrier>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace sextant::rank_threads_test {

TEST_CASE("where a rank gets no thread none begins, and it is said how many have one") {
  std::atomic<int> begun = 0, started = 0;
  const ThreadStart two_only = [&](std::function<void()> work) {
    if (started == 2)
      throw std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again));
    ++started;
    return ReusedThread(std::move(work));
  };
  std::string said;
  try {
    on_rank_threads(
        4, [&](std::size_t) { ++begun; }, [](const std::string&) {}, two_only);
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::kDevice);
    said = error.what();
  }
  CHECK(said.starts_with("2 of 4 ranks have a thread: "));
  CHECK(begun == 0);
}

TEST_CASE("ranks that meet all come, and an error of one is handed on and thrown again") {
  std::barrier all(8);
  std::vector<int> met(8);
  on_rank_threads(8, [&](std::size_t rank) {
    all.arrive_and_wait();
    met[rank] = 1;
  });
  CHECK(met == std::vector<int>(8, 1));
  std::string stopped;
  CHECK_THROWS_AS(on_rank_threads(
                      3,
                      [](std::size_t rank) {
                        if (rank == 1) throw Error(ErrorCode::kBadInput, "rank 1 is ill");
                      },
                      [&](const std::string& reason) { stopped = reason; }),
                  Error);
  CHECK(stopped == "rank 1 is ill");
}

}  // namespace sextant::rank_threads_test
