// Orders that run, orders that cannot, and the ring of waits that is printed.
#include "actor/protocol/dry_run.h"

#include "core/base/error.h"
#include "tests/support/graph_builder.h"
#include "tests/support/pipeline_graph.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <set>

namespace sextant::dry_run_test {
using namespace testing;

namespace {

std::size_t runs_in(const DryRun& dry) {
  std::size_t runs = 0;
  for (const Issue& issue : dry.order) runs += static_cast<std::size_t>(issue.num_runs);
  return runs;
}

}  // namespace

TEST_CASE("one rank per class issues what all ranks issue") {
  const PhysicalGraph graph = pipeline_graph({.stages = 2, .replicas = 2, .micro_batches = 3});
  const DryRun folded = dry_run(graph);
  CHECK(folded.ranks == std::vector<Rank>{Rank(0), Rank(2)});
  CHECK(runs_in(folded) ==
        graph.programs[ProgramId(0)].order.size() + graph.programs[ProgramId(1)].order.size());
  const DryRun all = dry_run(graph, RankScope::kAllRanks);
  CHECK(all.ranks.size() == 4);
  CHECK(runs_in(all) == 2 * runs_in(folded));
}

TEST_CASE("an order that needs separate streams is refused") {
  // Stage 1 answers micro-batch 0 before it receives micro-batch 1, while stage 0 sends both first.
  CHECK_THROWS_WITH_AS(dry_run(training_graph()), doctest::Contains("and so on from rank 0"),
                       Error);
}

TEST_CASE("members of a communication are neighbours in the global order without launch groups") {
  PipelineSpec spec;
  spec.replicas = 2;
  for (const RankScope scope : {RankScope::kOnePerClass, RankScope::kAllRanks}) {
    const PhysicalGraph graph = pipeline_graph(spec);
    const DryRun dry = dry_run(graph, scope);
    std::map<MeetingId, std::vector<std::size_t>> places;
    for (std::size_t i = 0; i < dry.order.size(); ++i) {
      const auto rank = static_cast<std::size_t>(
          std::find(dry.ranks.begin(), dry.ranks.end(), dry.order[i].rank) - dry.ranks.begin());
      const MeetingId meeting = dry.meeting_of_run[rank][dry.order[i].first];
      if (meeting.is_valid()) places[meeting].push_back(i);
    }
    CHECK(places.size() == dry.num_meetings);
    for (const auto& [meeting, at] : places) CHECK(at.back() - at.front() + 1 == at.size());
  }
}

TEST_CASE("two ranks that both send first wait for each other, and the ring is printed") {
  CHECK_NOTHROW(dry_run(exchange_graph(true, false, false)));
  CHECK_NOTHROW(dry_run(exchange_graph(false, true, false)));
  for (const bool both : {true, false}) {
    try {
      dry_run(exchange_graph(both, both, false));
      FAIL("accepted");
    } catch (const Error& error) {
      const std::string text = error.what();
      CHECK(error.code() == ErrorCode::kInfeasible);
      CHECK(text.find("rank 0 is at run 1") != std::string::npos);
      CHECK(text.find("waits for rank 1 to reach communication 0 of group") != std::string::npos);
      CHECK(text.find("rank 1 is at run 1") != std::string::npos);
      CHECK(text.find("and so on from rank 0") != std::string::npos);
    }
  }
}

TEST_CASE("a launch group on either side lets opposite transfers start together") {
  CHECK_NOTHROW(dry_run(exchange_graph(true, true, true)));
  CHECK_NOTHROW(dry_run(exchange_graph(false, false, true)));
  CHECK_NOTHROW(dry_run(exchange_graph(true, false, true)));
}

TEST_CASE("two roles of a rank cannot be one group") {
  CHECK_THROWS_WITH_AS(dry_run(exchange_graph(true, false, false, false)),
                       doctest::Contains("two groups of equal ranks are two groups"), Error);
}

// Rank r is in group r with rank r + 1 and in group r - 1 with rank r - 1, and does one all-reduce
// in each: in its own group first where `own_first` says so.
PhysicalGraph ring_of_groups(const std::vector<bool>& own_first) {
  GraphBuilder builder;
  const auto size = static_cast<int>(own_first.size());
  std::vector<GroupId> groups;
  for (int r = 0; r < size; ++r)
    groups.push_back(builder.group("pair" + std::to_string(r), {Rank(r), Rank((r + 1) % size)}));
  for (int r = 0; r < size; ++r) {
    const PlacementId here = builder.placement({{"x", 1}}, Rank(r));
    const LayoutId layout = builder.layout(Shape{4}, "B", here);
    const ProgramId program = builder.program("r" + std::to_string(r), here, 2);
    BlockBuilder block(builder, "reduce" + std::to_string(r), Phase::kCommunication);
    const std::int32_t value = block.reg("value", layout, block.frame());
    block.actor("make", QueueRole::kCompute, {}, {value});
    for (const GroupRole role : {0, 1}) {
      Communication sum;
      sum.primitive = Primitive::kAllReduce;
      sum.group = role;
      sum.from = sum.to = LayoutId(0);
      const std::int32_t total = block.reg("total", layout, block.frame());
      block.communication("sum", QueueRole::kCollective, sum, {BlockBuilder::of_register(value)},
                          {total});
    }
    const InstanceId instance = builder.instance(program, block.finish(), "reduce", 1, {1, 1, 1});
    const std::int32_t first = own_first[static_cast<std::size_t>(r)] ? 1 : 2;
    builder.run(program, {instance, 0, 1, 0, {}});
    builder.run(program, {instance, first, 1, 0, {}});
    builder.run(program, {instance, 3 - first, 1, 0, {}});
    builder.bind(program, {groups[static_cast<std::size_t>(r)],
                           groups[static_cast<std::size_t>((r + size - 1) % size)]});
  }
  return builder.graph();
}

TEST_CASE("a cyclic order of collectives is refused with the whole ring of waits") {
  CHECK_NOTHROW(dry_run(ring_of_groups({true, true, false}), RankScope::kAllRanks));
  CHECK_NOTHROW(dry_run(ring_of_groups({true, false, false}), RankScope::kAllRanks));
  for (const bool own_first : {true, false}) try {
      dry_run(ring_of_groups({own_first, own_first, own_first}), RankScope::kAllRanks);
      FAIL("accepted");
    } catch (const Error& error) {
      const std::string text = error.what();
      CHECK(error.code() == ErrorCode::kInfeasible);
      for (int r = 0; r < 3; ++r) {
        const int next = own_first ? (r + 1) % 3 : (r + 2) % 3;
        CHECK(text.find("rank " + std::to_string(r) + " is at run 1") != std::string::npos);
        CHECK(text.find("waits for rank " + std::to_string(next) + " to reach") !=
              std::string::npos);
      }
      CHECK(text.find("and so on from rank 0") != std::string::npos);
    }
}

TEST_CASE("two members that do two collectives of one group in unequal order are refused") {
  PhysicalGraph graph = pipeline_graph({.stages = 1, .replicas = 2});
  // A program of its own for rank 1, with the dtype of its reduction as the difference.
  graph.programs.push_back(graph.programs.front());
  graph.programs.back().name = "other";
  graph.ranks[Rank(1)].program = ProgramId(1);
  CHECK_NOTHROW(dry_run(graph));
  std::size_t changed = 0;
  for (Instance& instance : graph.programs.back().instances) {
    Block block = graph.block_of(instance);
    for (Actor& actor : block.actors)
      if (actor.communication && actor.queue == QueueRole::kCollective) {
        actor.communication->reduce = ReduceOp::kMax;
        ++changed;
      }
    graph.blocks.push_back(block);
    instance.block = BlockId(graph.blocks.size() - 1);
  }
  REQUIRE(changed > 0);
  CHECK_THROWS_WITH_AS(dry_run(graph), doctest::Contains("but another member issues"), Error);
}

TEST_CASE("members whose fingerprints differ are refused") {
  PhysicalGraph graph = pipeline_graph({.stages = 2});
  for (Actor& actor : graph.blocks.front().actors) {
    if (actor.name == "send") actor.communication->dtype = DType::kF64;
  }
  CHECK_THROWS_WITH_AS(dry_run(graph), doctest::Contains("but another member issues"), Error);
}

TEST_CASE("folding splits ranks whose groups look different") {
  // Stage 0 has three data-parallel ranks in one program; only two share a group for the last role.
  GraphBuilder builder;
  const PlacementId here = builder.placement({{"dp", 4}}, Rank(0));
  const ProgramId program = builder.program("p", here, 1);
  const GroupId pair = builder.group("pair", {Rank(0), Rank(1)});
  const GroupId one = builder.group("one", {Rank(2)});
  const GroupId other = builder.group("other", {Rank(3)});
  for (const GroupId group : {pair, pair, one, other}) builder.bind(program, {group});
  const PhysicalGraph graph = builder.graph();
  const RankClasses classes = rank_classes(graph, GroupMembers(graph));
  CHECK(classes.class_of == std::vector<std::int32_t>{0, 0, 1, 1});
  const std::vector<std::int32_t> straggler{0, 0, 0, 1};
  CHECK(rank_classes(graph, GroupMembers(graph), straggler).class_of ==
        std::vector<std::int32_t>{0, 0, 1, 2});
}

TEST_CASE("every schedule of every small pipeline runs dry, per class as on all ranks") {
  for (const PipelineSchedule schedule :
       {PipelineSchedule::kGPipe, PipelineSchedule::kOneFOneB, PipelineSchedule::kZeroBubble}) {
    for (const int stages : {1, 2, 3, 4}) {
      for (const int m : {1, 2, 5, 8}) {
        for (const bool groups : {false, true}) {
          PipelineSpec spec;
          spec.stages = stages;
          spec.replicas = stages % 2 + 1;
          spec.micro_batches = m;
          spec.schedule = schedule;
          spec.launch_groups = groups;
          spec.host_actors = m % 2 == 1;
          const PhysicalGraph graph = pipeline_graph(spec);
          CHECK(dry_run(graph).ranks.size() == static_cast<std::size_t>(stages));
          CHECK(dry_run(graph, RankScope::kAllRanks).ranks.size() == graph.ranks.size());
        }
      }
    }
  }
}

}  // namespace sextant::dry_run_test
