// One proof for all who run a graph: what it refuses, in which order, and that nothing that it
// accepts is refused later.
#include "actor/proof/prove.h"
#include "actor/protocol/rank_classes.h"
#include "core/base/error.h"
#include "tests/support/graph_builder.h"

#include <doctest/doctest.h>

#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace sextant::proof_test {
namespace {
using namespace testing;

// Two ranks with a program each, which reduce a tensor together.
PhysicalGraph reducing_graph() {
  GraphBuilder builder;
  const PlacementId both = builder.placement({{"dp", 2}}, Rank(0));
  const LayoutId part = builder.layout(Shape{4}, "P(sum)", both);
  const LayoutId whole = builder.layout(Shape{4}, "B", both);
  const GroupId group = builder.group("dp", {Rank(0), Rank(1)});
  for (const char* name : {"first", "second"}) {
    const ProgramId program = builder.program(name, both, 1);
    BlockBuilder block(builder, name, Phase::kForward);
    const std::int32_t mine = block.reg("mine", part, block.frame());
    const std::int32_t sum = block.reg("sum", whole, block.frame());
    block.actor("make", QueueRole::kCompute, {}, {mine});
    Communication reduce;
    reduce.primitive = Primitive::kAllReduce;
    reduce.from = part;
    reduce.to = whole;
    block.communication("reduce", QueueRole::kCollective, reduce, {BlockBuilder::of_register(mine)},
                        {sum});
    builder.act(program, builder.instance(program, block.finish(), name, 1, {1, 1}), 0);
    builder.bind(program, {group});
  }
  return builder.graph();
}

// The blocks of the last program name the layouts of their communications by ids of their own.
PhysicalGraph with_layouts_named_twice(PhysicalGraph graph) {
  const std::size_t known = graph.layouts.size();
  for (std::size_t layout = 0; layout < known; ++layout)
    graph.layouts.push_back(Layout(graph.layouts[LayoutId(layout)]));
  const auto renamed = [&](LayoutId layout) { return LayoutId(layout.index() + known); };
  for (const Instance& instance : graph.programs.back().instances) {
    Block& block = graph.blocks[instance.block];
    for (Register& reg : block.registers) reg.layout = renamed(reg.layout);
    for (Actor& actor : block.actors) {
      if (!actor.communication) continue;
      actor.communication->from = renamed(actor.communication->from);
      actor.communication->to = renamed(actor.communication->to);
    }
  }
  return graph;
}

// Producer and consumer on two queues, three contents in two slots: one guard is needed.
PhysicalGraph unordered_graph() {
  PhysicalGraph graph = chain_graph({2, 2}, 3);
  graph.blocks[BlockId(1)].actors.front().queue = QueueRole::kCopyOut;
  return graph;
}

std::optional<ErrorCode> code_of_refusal(const PhysicalGraph& graph,
                                         const ProofChecks& checks = {}) {
  try {
    prove(graph, checks);
  } catch (const Error& error) {
    return error.code();
  }
  return std::nullopt;
}

TEST_CASE("a layout with two ids is one layout for every check") {
  const PhysicalGraph graph = with_layouts_named_twice(reducing_graph());
  REQUIRE(validate(graph) == std::vector<std::string>{});
  CHECK_NOTHROW(dry_run(graph));
  CHECK_NOTHROW(dry_run(graph, RankScope::kAllRanks));
  CHECK_NOTHROW(prove(graph));
}

TEST_CASE("a proven graph keeps what the proof was made from") {
  const auto graph = std::make_shared<const PhysicalGraph>(reducing_graph());
  const ProvenGraph proven = prove(graph);
  CHECK(&proven.graph() == graph.get());
  const RankClasses classes = rank_classes(*graph, GroupMembers(*graph));
  CHECK(proven.classes().class_of == classes.class_of);
  CHECK(proven.dry_run().ranks == classes.representatives);
  // The tables are made once, whoever asks.
  const ProvenGraph copy = proven;
  CHECK(copy.tables().of(ProgramId(0)) == proven.tables().of(ProgramId(0)));
  CHECK(proven.dry_run_of(classes).get() == &proven.dry_run());
  CHECK(proven.dry_run_of(all_ranks(*graph))->ranks.size() == graph->ranks.size());
}

TEST_CASE("what is missing is said before what cannot run, and that before what is unordered") {
  const PhysicalGraph unordered = unordered_graph();
  CHECK_THROWS_WITH_AS(prove(unordered), doctest::Contains("bytes are used without order"), Error);
  CHECK(code_of_refusal(unordered) == ErrorCode::kInfeasible);
  CHECK(code_of_refusal(unordered, {.broken = ErrorCode::kInternal}) == ErrorCode::kInternal);
  CHECK_NOTHROW(prove(unordered, {.byte_order = false}));

  // Both ranks send before they receive, and nobody is there to take it.
  const PhysicalGraph stuck = exchange_graph(true, true, false);
  CHECK_THROWS_WITH_AS(prove(stuck), doctest::Contains("the ranks wait for each other"), Error);
  // An order that cannot run is not the compiler's own fault: a strategy may ask for one.
  CHECK(code_of_refusal(stuck, {.broken = ErrorCode::kInternal}) == ErrorCode::kInfeasible);

  PhysicalGraph invalid = stuck;
  invalid.programs.front().placement = PlacementId(99);
  CHECK_THROWS_WITH_AS(prove(invalid), doctest::Contains("the graph is not valid"), Error);
}

TEST_CASE("who stops the proof gets no result") {
  const PhysicalGraph graph = reducing_graph();
  CHECK_THROWS_AS(prove(graph, {.stop = StopPoll([] { return true; })}), CompileStopped);
}

}  // namespace
}  // namespace sextant::proof_test
