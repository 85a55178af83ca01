// Ranks on cards: what the user asked for, how many cards there are, and what is refused. No card
// is needed.
#include "backends/cuda/ranks/rank_placement.h"

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

TEST_CASE("ranks of several processes fill the cards that they see together, or their own") {
  const std::vector<std::string> both{"a", "b"};
  const auto cards = [](std::vector<std::string> names, std::size_t ranks) {
    return ProcessCards{std::move(names), ranks};
  };
  CHECK(cards_of_job({cards(both, 1), cards(both, 1)}, 1) == both);
  CHECK(cards_of_job({cards({"a"}, 1), cards({"b"}, 1)}, 1) == both);
  // Two machines of two cards, a process with two ranks on one and two with one on the other.
  CHECK(cards_of_job({cards({"a", "b"}, 2), cards({"c", "d"}, 1), cards({"c", "d"}, 1)}, 1) ==
        std::vector<std::string>{"a", "b", "c", "d"});
  CHECK(cards_of_job({cards(both, 2), cards(both, 1)}, 2) ==
        std::vector<std::string>{"a", "a", "b"});
  check_refused(
      [&] {
        cards_of_job({cards(both, 2), cards(both, 1)}, 1);
      },
      ErrorCode::kInfeasible, {"3 ranks", "2 GPUs", "--ranks-per-gpu 2"});
  check_refused(
      [&] {
        cards_of_job({cards(both, 1), cards({"b"}, 1)}, 1);
      },
      ErrorCode::kUsage, {"processes 0 and 1", "GPU b"});
  check_refused(
      [&] {
        cards_of_job({cards(both, 1), cards({"b", "a"}, 1)}, 1);
      },
      ErrorCode::kUsage, {"same order"});
}

TEST_CASE("ranks of several processes exchange by NCCL, with a card for each, or not at all") {
  using enum CudaCollectives;
  CHECK(collectives_over_processes(kAutomatic, {"a", "b"}, true) == kNccl);
  check_refused(
      [] {
        collectives_over_processes(kLocal, {"a", "b"}, true);
      },
      ErrorCode::kUsage, {"--collectives local", "several"});
  check_refused(
      [] {
        collectives_over_processes(kAutomatic, {"a", "a"}, true);
      },
      ErrorCode::kUsage, {"2 ranks share 1 GPU"});
  check_refused(
      [] {
        collectives_over_processes(kNccl, {"a", "b"}, false);
      },
      ErrorCode::kDevice, {"no NCCL"});
}

}  // namespace sextant::rank_placement_test
