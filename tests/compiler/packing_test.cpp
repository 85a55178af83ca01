// Packings against slow oracles: stays that meet share no byte, and on small instances the optimum
// over all orders.
#include "compiler/memory/packing.h"

#include "core/base/counter_rng.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <utility>
#include <vector>

namespace sextant::packing_test {
namespace {

constexpr std::int64_t kMuchWork = 10'000'000;

struct Draws {
  CounterRng random;
  std::uint64_t next = 0;
  std::int32_t below(std::int32_t limit) {
    return static_cast<std::int32_t>(random.bits(next++) % static_cast<std::uint64_t>(limit));
  }
};

// Sizes from 0 to `largest`, in order of begin, some of them for long.
std::vector<Stay> random_stays(Draws& draws, std::int32_t count, std::int32_t largest) {
  std::vector<Stay> stays;
  for (std::int32_t tick = 0; tick < count; ++tick) {
    Stay stay;
    stay.begin = tick;
    stay.end = std::min(count, tick + 1 + draws.below(draws.below(4) == 0 ? count : 5));
    stay.size = Bytes(draws.below(largest + 1));
    stay.family = draws.below(count);
    stay.is_short = stay.end <= tick + 2;
    stays.push_back(stay);
  }
  return stays;
}

bool meet(const Stay& a, const Stay& b) { return a.begin < b.end && b.begin < a.end; }

// What is wrong with a packing; nothing when it is sound.
std::string fault_of(const Packing& packing, const std::vector<Stay>& stays) {
  if (packing.offsets.size() != stays.size()) return "an offset is missing";
  Bytes end;
  for (std::size_t a = 0; a < stays.size(); ++a) {
    if (packing.offsets[a] < Bytes(0)) return "an offset is negative";
    end = std::max(end, packing.offsets[a] + stays[a].size);
    for (std::size_t b = 0; b < a; ++b)
      if (meet(stays[a], stays[b]) && packing.offsets[a] < packing.offsets[b] + stays[b].size &&
          packing.offsets[b] < packing.offsets[a] + stays[a].size)
        return "stays " + std::to_string(b) + " and " + std::to_string(a) + " share bytes";
  }
  return packing.size < end ? "a stay ends outside" : "";
}

// Exact: an optimal packing, put together again by rising offset and as low as possible, is no
// higher; so the best order of lowest places is optimal.
Bytes optimum(const std::vector<Stay>& stays) {
  std::vector<std::size_t> order(stays.size());
  std::iota(order.begin(), order.end(), 0);
  Bytes best(1'000'000);
  do {
    std::vector<Bytes> offsets(stays.size());
    Bytes size;
    for (std::size_t i = 0; i < order.size() && size < best; ++i) {
      Bytes& offset = offsets[order[i]];
      for (bool moved = true; moved;) {
        moved = false;
        for (std::size_t j = 0; j < i; ++j) {
          const Stay& other = stays[order[j]];
          const Bytes end = offsets[order[j]] + other.size;
          if (!meet(other, stays[order[i]]) || offset >= end ||
              offsets[order[j]] >= offset + stays[order[i]].size)
            continue;
          offset = end;
          moved = true;
        }
      }
      size = std::max(size, offset + stays[order[i]].size);
    }
    best = std::min(best, size);
  } while (std::next_permutation(order.begin(), order.end()));
  return best;
}

// What rules in order of begin say, with nothing kept from stay to stay but where they lie: first
// where the family has been, then in the smallest hole, else at the end.
class SlowArea {
 public:
  Bytes place(const Stay& stay, std::vector<Bytes>& family) {
    std::erase_if(lying_, [&](const auto& other) { return other.first.end <= stay.begin; });
    for (const Bytes offset : family)
      if (stay.size > Bytes() && offset + stay.size <= high_ && is_free(offset, stay.size))
        return lie(stay, offset);
    family.push_back(stay.size == Bytes() ? Bytes() : best(stay.size));
    high_ = std::max(high_, family.back() + stay.size);
    return lie(stay, family.back());
  }
  Bytes high() const { return high_; }

 private:
  bool is_free(Bytes offset, Bytes size) const {
    return std::none_of(lying_.begin(), lying_.end(), [&](const auto& other) {
      return other.second < offset + size && offset < other.second + other.first.size;
    });
  }
  // Holes begin at the end of what lies somewhere, or at the bottom.
  Bytes best(Bytes size) const {
    std::vector<Bytes> begins = {Bytes()};
    for (const auto& [stay, offset] : lying_) begins.push_back(offset + stay.size);
    std::sort(begins.begin(), begins.end());
    Bytes found = high_, least(1'000'000'000), top = high_;
    for (const Bytes begin : begins) {
      Bytes end = high_;
      for (const auto& [stay, offset] : lying_)
        if (offset >= begin && stay.size > Bytes()) end = std::min(end, offset);
      if (begin >= high_ || !is_free(begin, Bytes(1))) continue;
      if (end == high_) top = std::min(top, begin);
      if (end - begin < size || end - begin >= least) continue;
      found = begin;
      least = end - begin;
    }
    return least < Bytes(1'000'000'000) ? found : top;
  }
  Bytes lie(const Stay& stay, Bytes offset) {
    if (stay.size > Bytes()) lying_.emplace_back(stay, offset);
    return offset;
  }

  std::vector<std::pair<Stay, Bytes>> lying_;
  Bytes high_;
};

Packing slowly_in_order(const std::vector<Stay>& stays, bool apart) {
  std::map<std::int32_t, std::vector<Bytes>> families;
  SlowArea areas[2];
  Packing packing;
  for (const Stay& stay : stays)
    packing.offsets.push_back(
        areas[apart && stay.is_short ? 1 : 0].place(stay, families[stay.family]));
  for (std::size_t i = 0; i < stays.size(); ++i)
    if (apart && stays[i].is_short) packing.offsets[i] += areas[0].high();
  packing.size = areas[0].high() + areas[1].high();
  return packing;
}

TEST_CASE("rules in order of begin place every stay where a slow one does") {
  Draws draws{CounterRng(5, "in order")};
  for (int round = 0; round < 300; ++round) {
    std::vector<Stay> stays = random_stays(draws, 1 + draws.below(60), 1 + draws.below(12));
    // Few families, whose stays have often been where they could be again; of one size or of many.
    const bool has_sizes = draws.below(2) == 0;
    for (Stay& stay : stays) {
      stay.family = draws.below(5);
      if (has_sizes) stay.size = Bytes(stay.family);
    }
    for (const bool apart : {false, true}) {
      const Packing slow = slowly_in_order(stays, apart);
      const auto quick = pack(apart ? PackingRule::kApart : PackingRule::kInOrder, stays, 0);
      CHECK(quick->offsets == slow.offsets);
      CHECK(quick->size == slow.size);
    }
  }
}

TEST_CASE("every rule keeps stays that meet apart, and none is below the bound") {
  Draws draws{CounterRng(1, "stays")};
  for (std::int32_t instance = 0; instance < 200; ++instance) {
    const std::vector<Stay> stays = random_stays(draws, instance % 90, 20);
    const Bytes bound = packing_bound(stays);
    for (const PackingRule rule : kPackingRules) {
      CAPTURE(to_string(rule));
      const std::optional<Packing> packing = pack(rule, stays, kMuchWork);
      REQUIRE(packing.has_value());
      CHECK(fault_of(*packing, stays) == "");
      CHECK(packing->size >= bound);
    }
    const BestPacking best = pack_best(stays);
    CHECK(fault_of(best.packing, stays) == "");
    for (const PackingRule rule : kPackingRules)
      if (rule != PackingRule::kImproved)
        CHECK(best.packing.size <= pack(rule, stays, kMuchWork)->size);
  }
}

TEST_CASE(
    "the quick packing is the smaller one of both quick rules, however soon one is given up") {
  Draws draws{CounterRng(11, "quick")};
  std::map<PackingRule, int> won;
  for (std::int32_t instance = 0; instance < 200; ++instance) {
    const std::vector<Stay> stays = random_stays(draws, 2 + instance % 90, 20);
    const Packing in_order = *pack(PackingRule::kInOrder, stays, 0);
    const Packing apart = *pack(PackingRule::kApart, stays, 0);
    const BestPacking best = pack_quickly(stays, packing_bound(stays));
    const bool is_apart = apart.size < in_order.size;
    CHECK(best.rule == (is_apart ? PackingRule::kApart : PackingRule::kInOrder));
    CHECK(best.packing.size == std::min(apart.size, in_order.size));
    CHECK(best.packing.offsets == (is_apart ? apart : in_order).offsets);
    ++won[best.rule];
  }
  CHECK(won[PackingRule::kInOrder] > 10);
  CHECK(won[PackingRule::kApart] > 10);
}

TEST_CASE("a rule that improves is tried to its end, one that cannot may be given up") {
  Draws draws{CounterRng(7, "improve")};
  std::map<PackingRule, int> won;
  for (std::int32_t instance = 0; instance < 120; ++instance) {
    const std::vector<Stay> stays = random_stays(draws, 5 + instance % 80, 20);
    // Now and then only the largest are ordered.
    const std::int64_t work = instance % 3 == 0 ? 300 : kMuchWork / 20;
    BestPacking expected = pack_quickly(stays);
    const Bytes bound = packing_bound(stays);
    for (const PackingRule rule :
         {PackingRule::kLargestFirst, PackingRule::kLongestFirst, PackingRule::kHeaviestFirst}) {
      if (expected.packing.size <= bound) break;
      std::optional<Packing> packing = pack(rule, stays, work);
      if (packing && packing->size < expected.packing.size) expected = {*std::move(packing), rule};
    }
    BestPacking best = pack_quickly(stays);
    improve(best, stays, Bytes(), work);
    CHECK(fault_of(best.packing, stays) == "");
    ++won[best.rule];
    if (best.rule == PackingRule::kImproved) {
      CHECK(best.packing.size < expected.packing.size);
      continue;
    }
    CHECK(best.rule == expected.rule);
    CHECK(best.packing.offsets == expected.packing.offsets);
    CHECK(best.packing.size == expected.packing.size);
  }
  CHECK(won[PackingRule::kLargestFirst] + won[PackingRule::kLongestFirst] +
            won[PackingRule::kHeaviestFirst] >
        0);
  CHECK(won[PackingRule::kImproved] > 0);
}

TEST_CASE("the oracle sees a packing whose stays share a byte or end outside") {
  const std::vector<Stay> stays = {{0, 2, Bytes(4)}, {1, 3, Bytes(4)}, {2, 3, Bytes(4)}};
  const Packing good{{Bytes(0), Bytes(4), Bytes(0)}, Bytes(8)};
  CHECK(fault_of(good, stays) == "");
  Packing bad = good;
  bad.offsets[1] = Bytes(3);
  CHECK(fault_of(bad, stays) == "stays 0 and 1 share bytes");
  bad = good;
  bad.size = Bytes(7);
  CHECK(fault_of(bad, stays) == "a stay ends outside");
}

TEST_CASE("the best of all rules is the optimum of small instances, single rules are not") {
  Draws draws{CounterRng(2, "small")};
  std::array<std::int32_t, kPackingRules.size()> optimal{};
  std::int32_t best_optimal = 0;
  constexpr std::int32_t kInstances = 150;
  for (std::int32_t instance = 0; instance < kInstances; ++instance) {
    const std::vector<Stay> stays = random_stays(draws, 7, 9);
    const Bytes least = optimum(stays);
    REQUIRE(least >= packing_bound(stays));
    for (std::size_t rule = 0; rule < kPackingRules.size(); ++rule) {
      const Bytes size = pack(kPackingRules[rule], stays, kMuchWork)->size;
      REQUIRE(size >= least);
      optimal[rule] += size == least ? 1 : 0;
    }
    best_optimal += pack_best(stays).packing.size == least ? 1 : 0;
  }
  CHECK(best_optimal == kInstances);
  CHECK(*std::min_element(optimal.begin(), optimal.end()) < kInstances);
}

TEST_CASE("an order by begin leaves a hole that an order by weight does not") {
  // a and b leave holes of 1 around the long c; d needs 2 in one piece.
  const std::vector<Stay> stays = {
      {0, 2, Bytes(1), 0}, {1, 4, Bytes(1), 1}, {2, 3, Bytes(1), 2}, {3, 4, Bytes(2), 3}};
  CHECK(packing_bound(stays) == Bytes(3));
  CHECK(pack(PackingRule::kInOrder, stays, kMuchWork)->size > Bytes(3));
  CHECK(pack(PackingRule::kHeaviestFirst, stays, kMuchWork)->size == Bytes(3));
  const BestPacking best = pack_best(stays);
  CHECK(best.packing.size == Bytes(3));
  CHECK(best.rule != PackingRule::kInOrder);
}

TEST_CASE(
    "without work the rules that need it are left out, and the result is the same each time") {
  Draws draws{CounterRng(3, "work")};
  const std::vector<Stay> stays = random_stays(draws, 500, 1000);
  CHECK_FALSE(pack(PackingRule::kLargestFirst, stays, 100).has_value());
  const BestPacking poor = pack_best(stays, 100), good = pack_best(stays), again = pack_best(stays);
  CHECK(fault_of(poor.packing, stays) == "");
  CHECK(good.packing.size < poor.packing.size);
  CHECK(good.packing.offsets == again.packing.offsets);
  CHECK(good.rule == again.rule);
}

TEST_CASE("stays of no bytes and no stays at all need no area") {
  CHECK(pack_best({}).packing.size == Bytes(0));
  const std::vector<Stay> nothing = {{0, 3, Bytes(0)}, {1, 2, Bytes(0)}, {2, 3, Bytes(0)}};
  for (const PackingRule rule : kPackingRules)
    CHECK(pack(rule, nothing, kMuchWork)->size == Bytes(0));
}

}  // namespace
}  // namespace sextant::packing_test
