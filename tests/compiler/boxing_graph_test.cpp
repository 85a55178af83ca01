// Graphs of single boxings: their programs and actors, what they refuse, and the pieces at their
// entry. That they compute the right thing is tests/conformance/operators/boxing_*.
#include "compiler/expand/boxing_graph.h"

#include "actor/bytes/byte_order.h"
#include "actor/protocol/dry_run.h"
#include "compiler/expand/boxing_host.h"
#include "core/base/error.h"
#include "core/graphs/physical_graph_text.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace sextant::boxing_graph_test {
namespace {

Placement line(const char* axis, std::vector<int> ranks) {
  Placement placement{{{axis, static_cast<std::int64_t>(ranks.size())}}, {}};
  for (const int rank : ranks) placement.ranks.emplace_back(rank);
  return placement;
}

// A request with its placements.
struct Boxing {
  Placement source, target;
  BoxingRequest request;

  Boxing(Placement from, const std::string& from_words, Placement to, const std::string& to_words,
         const TensorType& type = {Shape{6, 4}, DType::kF32})
      : source(std::move(from)), target(std::move(to)) {
    request.type = type;
    request.from_placement = &source;
    request.to_placement = &target;
    request.from = parse_nd_sbp(from_words);
    request.to = parse_nd_sbp(to_words);
  }
  Boxing(const Boxing&) = delete;
  Boxing& operator=(const Boxing&) = delete;

  PhysicalGraph graph() const { return make_boxing_graph(request, plan_boxing(request).steps); }
  PhysicalGraph graph(const std::vector<BoxingStep>& steps) const {
    return make_boxing_graph(request, steps);
  }
};

// "rank 0: input|reduce_scatter|output"
std::string actors_of(const PhysicalGraph& graph, int rank) {
  const RankProgram& program = graph.program_of(Rank(rank));
  std::string text;
  for (const Instance& instance : program.instances)
    for (const Actor& actor : graph.block_of(instance).actors) {
      text += (text.empty() ? "" : " ") + actor.kind;
      if (actor.communication && actor.communication->side != Side::kBoth)
        text += "/" + std::string(to_string(actor.communication->side));
    }
  return text;
}

void check_sound(const PhysicalGraph& graph) {
  CHECK(validate(graph) == std::vector<std::string>());
  dry_run(graph);
  for (const ProgramId program : graph.programs.keys())
    for (const std::string& unordered : check_byte_order(graph, program)) FAIL_CHECK(unordered);
  CHECK(physical_graph_from_text(to_text(graph)) == graph);
}

TEST_CASE("ranks that hold equal parts and do the same share a program") {
  // 6 rows over 4: 2, 2, 1, 1.
  const Boxing boxing(line("x", {0, 1, 2, 3}), "P(sum)", line("x", {0, 1, 2, 3}), "S(0)");
  const PhysicalGraph graph = boxing.graph();
  check_sound(graph);
  CHECK(graph.programs.size() == 2);
  CHECK(graph.groups.size() == 1);
  for (int rank = 0; rank < 4; ++rank)
    CHECK(actors_of(graph, rank) == "input reduce_scatter output");
}

TEST_CASE("senders and receivers of disjoint placements have half a transfer each") {
  const Boxing boxing(line("x", {0, 1}), "S(0)", line("y", {4, 2}), "S(0)");
  const PhysicalGraph graph = boxing.graph();
  check_sound(graph);
  CHECK(graph.ranks.size() == 5);
  CHECK(actors_of(graph, 0) == "input transfer/send");
  CHECK(actors_of(graph, 4) == "transfer/receive output");
  // Rank 3 is a device of neither.
  CHECK(actors_of(graph, 3).empty());
  CHECK(graph.program_of(Rank(3)).order.empty());
}

TEST_CASE("who gets nothing of a transfer has its empty part without a message") {
  const Boxing boxing(line("x", {0}), "B", line("y", {1, 2}), "S(0)", {Shape{1}, DType::kI32});
  const PhysicalGraph graph = boxing.graph();
  check_sound(graph);
  CHECK(actors_of(graph, 1) == "transfer/receive output");
  CHECK(actors_of(graph, 2) == "box_local output");
}

TEST_CASE("a boxing without steps still passes through the device") {
  const Boxing boxing(line("x", {0, 1}), "B", line("x", {0, 1}), "B");
  const PhysicalGraph graph = boxing.graph({});
  check_sound(graph);
  CHECK(actors_of(graph, 1) == "input box_local output");
}

TEST_CASE("words of another mesh cost nothing and take no bytes") {
  const Boxing boxing(line("x", {0, 1, 2, 3}), "P(sum)",
                      {{{"a", 2}, {"b", 2}}, {Rank(0), Rank(1), Rank(2), Rank(3)}}, "(S(0), B)",
                      {Shape{8}, DType::kF32});
  BoxingStep scatter;
  scatter.kind = BoxingKind::kCollective;
  scatter.primitive = Primitive::kReduceScatter;
  scatter.group_axes = {0};
  scatter.from = boxing.request.from;
  scatter.to = parse_nd_sbp("S(0)");
  BoxingStep relabel;
  relabel.where = BoxingWhere::kBetween;
  relabel.from = scatter.to;
  relabel.to = parse_nd_sbp("(S(0), S(0))");
  BoxingStep gather;
  gather.kind = BoxingKind::kCollective;
  gather.primitive = Primitive::kAllGather;
  gather.where = BoxingWhere::kTarget;
  gather.group_axes = {1};
  gather.from = relabel.to;
  gather.to = boxing.request.to;
  const PhysicalGraph graph = boxing.graph({scatter, relabel, gather});
  check_sound(graph);
  CHECK(actors_of(graph, 2) == "input reduce_scatter box_local all_gather output");
  const Block& block = graph.blocks.front();
  CHECK(block.actors[2].in_place.has_value());
  CHECK(block.actors[2].work.written == Bytes(0));
  CHECK(block.registers[1].frame == block.registers[2].frame);
}

TEST_CASE("words of another mesh for what the host brought are a copy") {
  const Boxing boxing(line("x", {0, 1}), "S(0)", line("y", {0, 1}), "S(0)");
  BoxingStep relabel;
  relabel.where = BoxingWhere::kBetween;
  relabel.from = relabel.to = boxing.request.from;
  const PhysicalGraph graph = boxing.graph({relabel});
  check_sound(graph);
  CHECK(actors_of(graph, 0) == "input box_local output");
}

TEST_CASE("steps with equal groups share them") {
  const Boxing boxing(line("x", {0, 1, 2}), "P(max)", line("x", {0, 1, 2}), "P(max)");
  BoxingStep scatter;
  scatter.kind = BoxingKind::kCollective;
  scatter.primitive = Primitive::kReduceScatter;
  scatter.reduce = ReduceOp::kMax;
  scatter.group_axes = {0};
  scatter.from = boxing.request.from;
  scatter.to = parse_nd_sbp("S(0)");
  BoxingStep gather = scatter;
  gather.primitive = Primitive::kAllGather;
  gather.from = scatter.to;
  gather.to = parse_nd_sbp("B");
  BoxingStep back;
  back.from = gather.to;
  back.to = boxing.request.to;
  const PhysicalGraph graph = boxing.graph({scatter, gather, back});
  check_sound(graph);
  CHECK(graph.groups.size() == 1);
  CHECK(actors_of(graph, 2) == "input reduce_scatter all_gather box_local output");
}

std::string refusal_of(const Boxing& boxing, const std::vector<BoxingStep>& steps) {
  try {
    boxing.graph(steps);
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::kUsage);
    return error.what();
  }
  return "accepted";
}

TEST_CASE("steps that do not lead from source to target are refused, naming both sides") {
  const Boxing boxing(line("x", {0, 1}), "P(sum)", line("x", {0, 1}), "B");
  CHECK(refusal_of(boxing, {}) == "the steps end at P(sum)@[x=2] in f32, wanted B@[x=2] in f32");
  BoxingStep reduce;
  reduce.kind = BoxingKind::kCollective;
  reduce.group_axes = {0};
  reduce.from = boxing.request.from;
  reduce.to = boxing.request.to;
  CHECK(refusal_of(boxing, {reduce}) == "accepted");
  CHECK(refusal_of(boxing, {reduce, reduce}) ==
        "'all_reduce over axis 0: P(sum) -> B' in f32 does not continue from B@[x=2] in f32");
  reduce.dtype = reduce.to_dtype = DType::kBF16;
  CHECK(refusal_of(boxing, {reduce}) ==
        "'all_reduce over axis 0: P(sum) -> B' in bf16 does not continue from P(sum)@[x=2] in "
        "f32");
  const Boxing apart(line("x", {0, 1}), "B", line("x", {2, 3}), "B");
  CHECK(refusal_of(apart, {}) == "the steps end at B@[x=2] in f32, wanted B@[x=2]{2, 3} in f32");
}

// ---------------------------------------------------------------- pieces

LocalPiece piece(std::int64_t rows) {
  LocalPiece made{Shape{rows, 3}, {}};
  made.bytes.resize(static_cast<std::size_t>(rows) * 3 * 4);
  return made;
}

std::string answer_to(const std::vector<std::int64_t>& rows, std::int64_t global_rows,
                      std::vector<int> ranks) {
  const Boxing boxing(line("x", ranks), "S(0)", line("x", ranks), "S(0)",
                      {Shape{global_rows, 3}, DType::kF32});
  std::vector<LocalPiece> pieces;
  for (const std::int64_t count : rows) pieces.push_back(piece(count));
  try {
    BoxingHost host(boxing.request, std::move(pieces));
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::kBadInput);
    return error.what();
  }
  return "accepted";
}

TEST_CASE("pieces that break the split rule are refused with rank, rows got and wanted (G05)") {
  CHECK(answer_to({1, 3}, 4, {0, 1}) ==
        "pieces that are not S(0)@[x=2] of 4x3 f32: rank 0: got 1x3, wanted 2x3; rank 1: got 3x3, "
        "wanted 2x3");
  CHECK(answer_to({2, 2}, 4, {0, 1}) == "accepted");
  // The first parts are the longer ones.
  CHECK(answer_to({3, 2}, 5, {7, 3}) == "accepted");
  CHECK(answer_to({2, 3}, 5, {7, 3}) ==
        "pieces that are not S(0)@[x=2] of 5x3 f32: rank 7: got 2x3, wanted 3x3; rank 3: got 3x3, "
        "wanted 2x3");
  CHECK(answer_to({1, 1, 0}, 2, {0, 1, 2}) == "accepted");
  CHECK(answer_to({1, 0, 1}, 2, {0, 1, 2}) ==
        "pieces that are not S(0)@[x=3] of 2x3 f32: rank 1: got 0x3, wanted 1x3; rank 2: got 1x3, "
        "wanted 0x3");
}

// Every way to hand 5 rows to 3 ranks: 2, 2, 1 is the rule and all others break it.
TEST_CASE("of all ways to cut a tensor only the balanced one is accepted (G05)") {
  int accepted = 0, refused = 0;
  for (std::int64_t a = 0; a <= 5; ++a)
    for (std::int64_t b = 0; a + b <= 5; ++b) {
      const bool is_rule = a == 2 && b == 2;
      const bool is_accepted = answer_to({a, b, 5 - a - b}, 5, {0, 1, 2}) == "accepted";
      CHECK(is_accepted == is_rule);
      ++(is_accepted ? accepted : refused);
    }
  CHECK(accepted == 1);
  CHECK(refused == 20);
}

TEST_CASE("pieces must be as many as devices and as long as their extents say") {
  CHECK(answer_to({4}, 4, {0, 1}) == "1 pieces for the 2 devices of [x=2]");
  const Placement one = line("x", {4});
  LocalPiece shortened = piece(4);
  shortened.bytes.pop_back();
  CHECK_THROWS_WITH(
      require_pieces({Shape{4, 3}, DType::kF32}, parse_nd_sbp("B"), one, std::vector{shortened}),
      "pieces that are not B@[x=1] of 4x3 f32: rank 4: got 47 bytes for 4x3, wanted 48");
}

}  // namespace
}  // namespace sextant::boxing_graph_test
