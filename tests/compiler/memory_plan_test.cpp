// Memory plans against brute force: contents that live at one time share no byte, and nothing is
// below the bound.
#include "compiler/memory/memory_plan.h"

#include "compiler/expand/expand.h"
#include "compiler/memory/free_list.h"
#include "compiler/memory/lifetimes.h"
#include "tests/compiler/toy_chain.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <vector>

namespace sextant::memory_plan_test {
namespace {

using testing::ToyChain;

struct PlacedContent {
  std::int64_t first = 0, last = 0;  // positions; state and host contents live always
  Bytes begin, end;
  std::int32_t frame = 0;
};

std::vector<PlacedContent> placed_contents(const PhysicalGraph& graph, const RankProgram& program) {
  const Lifetimes lifetimes = find_lifetimes(graph, program);
  std::vector<PlacedContent> placed;
  for (std::size_t f = 0; f < lifetimes.frames.size(); ++f) {
    const ProgramFrame& frame = lifetimes.frames[ProgramFrameId(f)];
    const FrameBinding& binding =
        program.instances[frame.instance].frames[static_cast<std::size_t>(frame.index)];
    const bool always = frame.frame->initially_full || frame.is_host;
    for (std::int32_t content = 0; content < frame.contents_per_step; ++content) {
      const auto slot =
          static_cast<std::size_t>(binding.slot_of_content[static_cast<std::size_t>(content)]);
      PlacedContent entry;
      entry.begin = binding.slot_offsets[slot];
      entry.end = entry.begin + frame.frame->size;
      entry.frame = static_cast<std::int32_t>(f);
      if (always) {
        entry.first = 0;
        entry.last = std::numeric_limits<std::int64_t>::max();
      } else {
        const ContentLife& life = lifetimes.contents[frame.first_content.plus(content)];
        entry.first = life.first;
        entry.last = life.last;
      }
      placed.push_back(entry);
    }
  }
  return placed;
}

std::vector<ToyChain> chains() {
  std::vector<ToyChain> all;
  for (int variant = 0; variant < 16; ++variant) {
    ToyChain chain;
    chain.layers = {2, 1 + variant % 3, 2};
    chain.micro_batches = 1 + variant % 7;
    chain.dp = 1 + variant % 2;
    chain.tp = 1 + variant / 2 % 2;
    chain.hidden = 40 + variant;
    chain.gather = variant % 3 == 0;
    chain.skip = variant % 4 == 0;
    chain.tied = variant % 5 == 0;
    chain.host = variant % 2 == 0;
    all.push_back(chain);
  }
  return all;
}

PhysicalGraph expand_toy(const ToyChain& chain, const ExpandOptions& options) {
  return expand(testing::toy_chain(chain), testing::toy_operators(), testing::ToyCost(),
                testing::ToyNetwork(3, 2), options);
}

TEST_CASE("contents that live at one time share no byte, and all lie in the arena") {
  for (const ToyChain& chain : chains())
    for (const Schedule schedule : {Schedule::kGPipe, Schedule::kOneFOneB, Schedule::kZeroBubbleH1})
      for (const SlotLifetime lifetime : {SlotLifetime::kIssueOrder, SlotLifetime::kModelled}) {
        ExpandOptions options;
        options.schedule = schedule;
        options.slot_lifetime = lifetime;
        const PhysicalGraph graph = expand_toy(chain, options);
        for (const RankProgram& program : graph.programs) {
          const std::vector<PlacedContent> placed = placed_contents(graph, program);
          for (std::size_t a = 0; a < placed.size(); ++a) {
            CHECK(placed[a].end <= program.arena.size);
            for (std::size_t b = a + 1; b < placed.size(); ++b) {
              const bool meet_in_time =
                  placed[a].first <= placed[b].last && placed[b].first <= placed[a].last;
              const bool meet_in_space =
                  placed[a].begin < placed[b].end && placed[b].begin < placed[a].end;
              // Contents of one fixed frame may share a slot: credits keep them apart.
              const bool own_slot = placed[a].frame == placed[b].frame &&
                                    placed[a].begin == placed[b].begin && placed[a].first == 0 &&
                                    placed[a].last == placed[b].last;
              if (!own_slot) CHECK_FALSE((meet_in_time && meet_in_space));
            }
          }
        }
      }
}

TEST_CASE("the arena is never below its bound, the bound is what lives at the worst time") {
  for (const ToyChain& chain : chains()) {
    ExpandOptions options;
    options.slot_lifetime = SlotLifetime::kIssueOrder;  // lives that can be read off the order
    const PhysicalGraph graph = expand_toy(chain, options);
    for (const RankProgram& program : graph.programs) {
      const ArenaPlan& arena = program.arena;
      CHECK(arena.size >= arena.lower_bound);
      const Bytes sum =
          std::accumulate(arena.peak_by_class.begin(), arena.peak_by_class.end(), Bytes());
      CHECK(sum == arena.lower_bound);
      // By brute force: bytes live at each position where something begins. What host actors touch
      // and state has as many slots as it has different addresses.
      std::vector<PlacedContent> placed = placed_contents(graph, program);
      const std::int64_t always = std::numeric_limits<std::int64_t>::max();
      std::sort(placed.begin(), placed.end(), [](const auto& a, const auto& b) {
        return std::tuple(a.last, a.begin, a.end) < std::tuple(b.last, b.begin, b.end);
      });
      placed.erase(std::unique(placed.begin(), placed.end(),
                               [&](const auto& a, const auto& b) {
                                 return a.last == always && b.last == always &&
                                        a.begin == b.begin && a.end == b.end;
                               }),
                   placed.end());
      Bytes most;
      for (const PlacedContent& at : placed) {
        Bytes live;
        for (const PlacedContent& other : placed)
          if (other.first <= at.first && at.first <= other.last) live += other.end - other.begin;
        most = std::max(most, live);
      }
      CHECK(arena.lower_bound == most);
    }
  }
}

TEST_CASE("without reuse every content has bytes of its own and needs no guard") {
  ExpandOptions options;
  options.plan_memory = false;
  for (const ToyChain& chain : chains()) {
    const PhysicalGraph graph = expand_toy(chain, options);
    const PhysicalGraph planned = expand_toy(chain, ExpandOptions());
    for (const ProgramId program : graph.programs.keys()) {
      CHECK(graph.programs[program].arena.size >= planned.programs[program].arena.size);
      for (const Guard& guard : graph.programs[program].guards) CHECK(guard.lag == 1);
    }
  }
}

TEST_CASE("GPipe needs more memory than 1F1B as soon as there are more micro-batches than stages") {
  ToyChain chain;
  chain.layers = {2, 2};
  chain.micro_batches = 8;
  chain.hidden = 4;
  chain.batch = 512;  // activations outweigh weights
  ExpandOptions options;
  options.schedule = Schedule::kOneFOneB;
  const Bytes few = expand_toy(chain, options).programs[ProgramId(0)].arena.size;
  options.schedule = Schedule::kGPipe;
  CHECK(expand_toy(chain, options).programs[ProgramId(0)].arena.size > few);
}

TEST_CASE("a free list gives the smallest hole that fits, joins neighbours and grows at its end") {
  FreeList list;
  CHECK(list.take(Bytes(4)) == Bytes(0));
  CHECK(list.take(Bytes(2)) == Bytes(4));
  CHECK(list.take(Bytes(3)) == Bytes(6));
  CHECK(list.take(Bytes(1)) == Bytes(9));
  list.give_back(Bytes(0), Bytes(4));
  list.give_back(Bytes(6), Bytes(3));
  CHECK(list.take(Bytes(3)) == Bytes(6));  // fits exactly; the hole of 4 stays whole
  list.give_back(Bytes(4), Bytes(2));
  CHECK(list.take(Bytes(6)) == Bytes(0));  // 0..4 and 4..6 are one hole
  list.give_back(Bytes(9), Bytes(1));
  CHECK(list.take(Bytes(5)) == Bytes(9));  // the last hole grows with the area
  CHECK(list.high_water() == Bytes(14));
  CHECK(list.take(Bytes(0)) == Bytes(0));
}

}  // namespace
}  // namespace sextant::memory_plan_test
