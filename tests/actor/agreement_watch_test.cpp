// Who keeps ranks waiting while they begin or end, and who does not, on a clock that the test
// moves.
#include "actor/hosts/agreement_watch.h"

#include "actor/hosts/host_group.h"
#include "actor/hosts/rank_threads.h"
#include "core/base/error.h"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace sextant::agreement_watch_test {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kPatience{300};

// Three ranks.
class Watched {
 public:
  explicit Watched(std::size_t job_ranks = 3)
      : watch_({Rank(0), Rank(1), Rank(2)}, job_ranks, [this] { return now_; }) {}

  AgreementWatch* get() { return &watch_; }
  std::optional<std::string> late_after(milliseconds time) {
    now_ += time;
    return watch_.late();
  }

 private:
  std::chrono::nanoseconds now_{0};
  AgreementWatch watch_;
};

}  // namespace

TEST_CASE(
    "a rank that does not come to a meeting is named to the one that waits, once it is late") {
  Watched watch;
  const AgreementWatch::Wait first(watch.get(), Rank(0), "with memory", 10 * kPatience);
  { const AgreementWatch::Wait over(watch.get(), Rank(1), "with memory", kPatience); }
  { const AgreementWatch::Wait over(watch.get(), Rank(2), "with memory", kPatience); }
  CHECK_FALSE(watch.late_after(2 * kPatience).has_value());  // rank 0 has more patience
  const AgreementWatch::Wait next(watch.get(), Rank(2), "connecting", kPatience);
  CHECK_FALSE(watch.late_after(kPatience).has_value());
  CHECK(watch.late_after(milliseconds(1)) ==
        "rank 2: waited in agreement 2 of all ranks, connecting: ranks 2 arrived, ranks 0, 1 did "
        "not; "
        "nothing came or went for 0.3 s");
}

TEST_CASE("ranks that all came and do not go are told, also where a process has a part of them") {
  for (const std::size_t job_ranks : {3, 5}) {
    Watched watch(job_ranks);
    const AgreementWatch::Wait zero(watch.get(), Rank(0), "closing", kPatience);
    const AgreementWatch::Wait one(watch.get(), Rank(1), "closing", kPatience);
    const AgreementWatch::Wait two(watch.get(), Rank(2), "closing", kPatience);
    const auto said = watch.late_after(2 * kPatience);
    REQUIRE(said.has_value());
    CHECK(said->find(job_ranks == 3 ? "ranks 0, 1, 2 arrived, ranks none did not"
                                    : "ranks 0, 1, 2 arrived, ranks of other processes did not") !=
          std::string::npos);
  }
}

TEST_CASE("nobody is late while ranks come and go, in no meeting, or where none looks") {
  Watched watch;
  {
    const AgreementWatch::Wait waiting(watch.get(), Rank(0), "with memory", kPatience);
    for (int i = 0; i < 8; ++i) {
      CHECK_FALSE(watch.late_after(kPatience / 2).has_value());
      const AgreementWatch::Wait busy(watch.get(), Rank(1), "with memory", kPatience);
    }
  }
  CHECK_FALSE(watch.late_after(100 * kPatience).has_value());
  const AgreementWatch::Wait unwatched(nullptr, Rank(0), "with memory", milliseconds(0));
}

TEST_CASE("ranks that agree are ended by what is said of the one that does not come") {
  ThreadHostGroups groups(2);
  std::atomic<std::int64_t> now{0};
  AgreementWatch watch({Rank(0), Rank(1)}, 2, [&] { return milliseconds(now.load()); });
  std::atomic<bool> is_waiting{false}, is_said{false};
  const auto body = [&](std::size_t rank) {
    while (rank == 1 && !is_said) std::this_thread::yield();  // it is stopped
    const AgreementWatch::Wait meeting(&watch, Rank(rank), "agreeing", kPatience);
    is_waiting = true;
    groups.of(Rank(rank)).agree(std::nullopt);
  };
  std::thread owner([&] {
    while (!is_waiting) std::this_thread::yield();
    now = 2 * kPatience.count();
    groups.abort(watch.late().value_or("nobody is late"));
    is_said = true;
  });
  try {
    on_rank_threads(2, body);
    FAIL("no error");
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::kRankFailed);
    CHECK(std::string(error.what()).find("agreeing: ranks 0 arrived, ranks 1 did not") !=
          std::string::npos);
  }
  owner.join();
}

}  // namespace sextant::agreement_watch_test
