// Sizes that are remembered against sizes that are worked out anew.
#include "compiler/order/moved_sizes.h"

#include "core/costs/words_at.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <random>
#include <vector>

namespace sextant::moved_sizes_test {
namespace {

Placement shuffled_stage(int stage, const std::vector<std::size_t>& order) {
  Placement placement = consecutive_placement({{"a", 2}, {"b", 3}}, Rank(6 * stage));
  const std::vector<Rank> ranks = placement.ranks;
  for (std::size_t i = 0; i < ranks.size(); ++i) placement.ranks[i] = ranks[order[i]];
  return placement;
}

}  // namespace

TEST_CASE("remembered sizes are those that are worked out anew, on all stages") {
  std::mt19937 random(1);
  const std::vector<Sbp> letters = {Sbp::broadcast(), Sbp::split(0), Sbp::split(1)};
  const auto letter = [&] { return letters[random() % letters.size()]; };
  std::vector<std::size_t> order = {0, 1, 2, 3, 4, 5};
  std::vector<Placement> stages;
  for (int stage = 0; stage < 5; ++stage) {
    stages.push_back(shuffled_stage(stage, order));
    if (stage == 2) std::shuffle(order.begin(), order.end(), random);
  }
  stages.push_back(consecutive_placement({{"a", 3}, {"b", 2}}, Rank(3)));  // overlaps two of them
  MovedSizes sizes;
  int asked = 0;
  for (int round = 0; round < 60; ++round) {
    const NdSbp from = {letter(), letter()}, to = {letter(), letter()};
    const Shape shape{1 + static_cast<std::int64_t>(random() % 9), 7};
    for (const Placement& source : stages)
      for (const Placement& target : stages) {
        Communication communication;
        communication.primitive = &source == &target ? Primitive::kAllToAll : Primitive::kTransfer;
        communication.dtype = random() % 2 == 0 ? DType::kBF16 : DType::kF32;
        std::vector<Rank> members = source.ranks;
        for (const Rank rank : target.ranks)
          if (std::find(members.begin(), members.end(), rank) == members.end())
            members.push_back(rank);
        const WordsOnPlacement before{&from, &source}, after{&to, &target};
        const CollectiveCost known = sizes.cost(communication, shape, before, after, members);
        const CollectiveCost anew = collective_cost(communication, shape, before, after, members);
        CHECK(known.global_bytes == anew.global_bytes);
        CHECK(known.largest_volume == anew.largest_volume);
        CHECK(known.communication == &communication);
        CHECK(known.members.data() == members.data());
        ++asked;
      }
  }
  CHECK(sizes.size() * 2 < static_cast<std::size_t>(asked));
}

}  // namespace sextant::moved_sizes_test
