// Ranks on cards: what the user asked for, how many cards there are, and what is refused. No card
// is needed.
#include "backends/cuda/rank_placement.h"

#include "core/base/error.h"

#include <doctest/doctest.h>

#include <functional>
#include <string>
#include <vector>

namespace sextant::rank_placement_test {
namespace {

void check_refused(const std::function<void()>& act, ErrorCode code,
                   const std::vector<std::string>& words) {
  try {
    act();
    FAIL("no error");
  } catch (const Error& error) {
    CHECK(error.code() == code);
    for (const std::string& word : words)
      CHECK_MESSAGE(std::string(error.what()).find(word) != std::string::npos, error.what());
  }
}

}  // namespace

TEST_CASE("ranks fill the cards that are named, in that order, or all") {
  CHECK(usable_gpus({}, 3) == std::vector{0, 1, 2});
  CHECK(usable_gpus({2, 0}, 3) == std::vector{2, 0});
  CHECK(gpus_of_ranks(2, {0, 1, 2}, 1) == std::vector{0, 1});
  CHECK(gpus_of_ranks(3, {2, 0}, 2) == std::vector{2, 2, 0});
}

TEST_CASE("a card twice, a card that is not there and too few cards are refused with a way out") {
  check_refused([] { usable_gpus({1, 1}, 2); }, ErrorCode::kUsage, {"GPU 1", "twice"});
  check_refused([] { usable_gpus({0, 5}, 2); }, ErrorCode::kDevice, {"GPU 5 of 2"});
  check_refused(
      [] {
        gpus_of_ranks(3, {0, 1}, 1);
      },
      ErrorCode::kInfeasible, {"3 ranks", "2 GPUs", "--ranks-per-gpu 2"});
  check_refused([] { gpus_of_ranks(1, {0}, 0); }, ErrorCode::kUsage, {"--ranks-per-gpu 0"});
}

TEST_CASE("ranks exchange by NCCL where each has a card, else by themselves") {
  using enum CudaCollectives;
  CHECK(collectives_for(kAutomatic, {0, 1}, true) == kNccl);
  CHECK(collectives_for(kAutomatic, {0, 1}, false) == kLocal);
  CHECK(collectives_for(kAutomatic, {0, 0, 1}, true) == kLocal);
  CHECK(collectives_for(kLocal, {0, 1}, true) == kLocal);
  CHECK(collectives_for(kNccl, {1, 0}, true) == kNccl);
  check_refused(
      [] {
        collectives_for(kNccl, {0, 1, 1}, true);
      },
      ErrorCode::kUsage, {"3 ranks share 2 GPUs", "--collectives local"});
  check_refused([] { collectives_for(kNccl, {0, 1}, false); }, ErrorCode::kDevice, {"no NCCL"});
}

}  // namespace sextant::rank_placement_test
