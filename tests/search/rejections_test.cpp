// What stands for the strategies that are no plans.
#include "search/search/rejections.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <vector>

namespace sextant::rejections_test {
namespace {

Strategy with_tp(int tp) {
  Strategy strategy;
  strategy.tp = tp;
  return strategy;
}

Candidate miss_of(int tp, std::int64_t needed, std::int64_t capacity) {
  Candidate candidate;
  candidate.strategy = with_tp(tp);
  candidate.needed_memory = Bytes(needed);
  candidate.capacity = Bytes(capacity);
  return candidate;
}

TEST_CASE("refusals that differ in numbers, names and hints alone are one kind") {
  Rejections rejections;
  rejections.note_refusal(with_tp(2), 3, "'wq' has 5 heads; use tp=5");
  rejections.note_refusal(with_tp(4), 2, "'wk' has 7 heads");
  rejections.note_refusal(with_tp(8), 1, "there are no experts");
  const std::vector<Rejection> kinds = rejections.by_kind();
  REQUIRE(kinds.size() == 2);
  CHECK(kinds[0].count == 5);
  CHECK(kinds[0].example == with_tp(2));
  CHECK(kinds[0].reason == "'wq' has 5 heads; use tp=5");
  CHECK(kinds[1].count == 1);
}

TEST_CASE("of plans that do not fit the one that misses least stands for all") {
  Rejections rejections;
  CHECK(!rejections.closest());
  rejections.note_miss(miss_of(2, 90, 80));
  rejections.note_miss(miss_of(4, 63, 60));
  rejections.note_miss(miss_of(8, 83, 80));  // no nearer than the one before
  const std::vector<Rejection> kinds = rejections.by_kind();
  REQUIRE(kinds.size() == 1);
  CHECK(kinds[0].count == 3);
  CHECK(kinds[0].example == with_tp(4));
  REQUIRE(rejections.closest());
  CHECK(rejections.closest()->strategy == with_tp(4));
  CHECK(rejections.closest()->needed == Bytes(63));
}

TEST_CASE("of bounds the least excess stands for all, with what libraries take in both numbers") {
  const std::vector<LibraryUse> libraries{{"NCCL", Bytes(std::int64_t{1} << 30), {}, ""}};
  const auto excess = [](std::int64_t gib) {
    const std::int64_t one = std::int64_t{1} << 30;
    return NodeFacts::Excess{.missing = Bytes(gib * one),
                             .needed = Bytes((10 + gib) * one),
                             .room = Bytes(10 * one),
                             .least = {}};
  };
  Rejections rejections;
  rejections.note_bound(with_tp(2), 4, excess(7), libraries);
  rejections.note_bound(with_tp(4), 2, excess(3), libraries);
  rejections.note_bound(with_tp(8), 1, excess(5), libraries);
  const std::vector<Rejection> kinds = rejections.by_kind();
  REQUIRE(kinds.size() == 1);
  CHECK(kinds[0].count == 7);
  CHECK(kinds[0].example == with_tp(4));
  CHECK(kinds[0].reason.starts_with("at least memory: 14.0 GiB of 11.0 GiB"));
}

}  // namespace
}  // namespace sextant::rejections_test
