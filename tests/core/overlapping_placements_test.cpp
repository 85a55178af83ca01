// Programs whose ranks are devices of two placements: what the validator accepts of them, what it
// refuses, one rule at a time, and the way through JSON.
#include "core/graphs/physical_graph.h"
#include "tests/support/graph_builder.h"

#include <doctest/doctest.h>

#include <functional>
#include <string>
#include <vector>

namespace sextant::overlapping_placements_test {
namespace {

using testing::BlockBuilder;
using testing::GraphBuilder;

constexpr std::size_t kSource = 0, kBoth = 1, kTarget = 2;  // programs, and their blocks

// Rank 0 only sends, ranks 1 and 2 send and receive, rank 3 only receives: rows of a 6 x 2 tensor
// move from [x=3] over ranks 0-2 to [y=3] over ranks 1-3.
class Overlap {
 public:
  Overlap() {
    const PlacementId from = builder_.placement({{"x", 3}}, Rank(0));
    const PlacementId to = builder_.placement({{"y", 3}}, Rank(1));
    before_ = builder_.layout(Shape{6, 2}, "S(0)", from);
    after_ = builder_.layout(Shape{6, 2}, "S(0)", to);
    add_program("source", from, Side::kSend, QueueRole::kTransferOutForward);
    add_program("both", from, Side::kBoth, QueueRole::kCollective);
    add_program("target", to, Side::kReceive, QueueRole::kTransferInForward);
    const GroupId all = builder_.group("all", {Rank(0), Rank(1), Rank(2), Rank(3)});
    for (const int program : {0, 1, 1, 2}) builder_.bind(ProgramId(program), {all});
  }

  PhysicalGraph graph() { return builder_.graph(); }

 private:
  void add_program(const std::string& name, PlacementId placement, Side side, QueueRole queue) {
    const ProgramId program = builder_.program(name, placement, 1);
    BlockBuilder block(builder_, name, Phase::kForward);
    std::vector<Operand> in;
    std::vector<std::int32_t> out;
    if (side != Side::kReceive) {
      const std::int32_t value = block.reg("before", before_, block.frame());
      block.actor("make", QueueRole::kCompute, {}, {value});
      in.push_back(BlockBuilder::of_register(value));
    }
    if (side != Side::kSend) out.push_back(block.reg("after", after_, block.frame()));
    block.communication("move", queue,
                        {.primitive = Primitive::kTransfer,
                         .side = side,
                         .group = 0,
                         .reduce = ReduceOp::kSum,
                         .dtype = DType::kF32,
                         .from = before_,
                         .to = after_},
                        in, out);
    const std::vector<std::int32_t> registers(side == Side::kBoth ? 2 : 1, 1);
    const InstanceId instance = builder_.instance(program, block.finish(), name, 1, registers);
    builder_.act(program, instance, 0);
  }

  GraphBuilder builder_;
  LayoutId before_, after_;
};

Actor& transfer_of(PhysicalGraph& graph, std::size_t program) {
  return graph.blocks[program].actors.back();
}

TEST_CASE("a rank of both placements of a transfer sends and receives in one actor") {
  CHECK(validate(Overlap().graph()) == std::vector<std::string>());
}

TEST_CASE("a graph over overlapping placements comes back from JSON unchanged") {
  const PhysicalGraph graph = Overlap().graph();
  CHECK(physical_graph_from_json(to_json_text(graph)) == graph);
}

TEST_CASE("a rank holds of each placement what its position there gives it") {
  const PhysicalGraph graph = Overlap().graph();
  const auto rows = [&](int layout, int rank) {
    return shard_of(graph, LayoutId(layout), Rank(rank)).dims[0];
  };
  CHECK(rows(0, 2) == Interval{4, 2});
  CHECK(rows(1, 2) == Interval{2, 2});
  CHECK_THROWS(rows(1, 0));
}

struct Breakage {
  const char* rule;
  const char* message;  // a part of it
  std::function<void(PhysicalGraph&)> apply;
};

const std::vector<Breakage>& breakages() {
  static const std::vector<Breakage> kAll = {
      {"C2", "'move' is all_to_all with side send",
       [](PhysicalGraph& graph) {
         transfer_of(graph, kSource).communication->primitive = Primitive::kAllToAll;
       }},
      {"C3", "'move' with side both is on queue transfer_in_forward",
       [](PhysicalGraph& graph) {
         transfer_of(graph, kBoth).queue = QueueRole::kTransferInForward;
       }},
      {"C4", "'move' with side both has 0 inputs and 1 outputs",
       [](PhysicalGraph& graph) {
         transfer_of(graph, kBoth).in.clear();
         graph.blocks[kBoth].edges.clear();
       }},
      {"C5", "the registers of 'move' are not laid out as it says",
       [](PhysicalGraph& graph) { graph.blocks[kBoth].registers[1].layout = LayoutId(0); }},
      {"C8", "program 'both': 'move' with side receive holds `from` and holds `to`",
       [](PhysicalGraph& graph) {
         Actor& move = transfer_of(graph, kBoth);
         move.communication->side = Side::kReceive;
         move.queue = QueueRole::kTransferInForward;
         move.in.clear();
         graph.blocks[kBoth].edges.clear();
       }},
      {"C8", "program 'both': 'move' with side both holds `from` and holds on some ranks `to`",
       [](PhysicalGraph& graph) {
         graph.placements[1] = {{{"y", 2}}, {Rank(1), Rank(3)}};
         graph.ranks[3].index_in_placement = 1;
       }},
      {"C8", "program 'source': 'move' with side send holds `from` and holds `to`",
       [](PhysicalGraph& graph) {
         graph.placements[1] = {{{"y", 4}}, {Rank(1), Rank(2), Rank(3), Rank(0)}};
       }},
      {"C9", "the collective 'move' leads from placement 0 to placement 1",
       [](PhysicalGraph& graph) {
         transfer_of(graph, kBoth).communication->primitive = Primitive::kAllToAll;
       }},
      {"S1",
       "program 'source' on placement 0 holds register 'spare' of placement 1, which lacks rank 0",
       [](PhysicalGraph& graph) {
         Block& block = graph.blocks[kSource];
         Register spare = block.registers[0];
         spare.name = "spare";
         spare.layout = LayoutId(1);
         spare.offset = block.frames[0].size;
         block.frames[0].size += Bytes(kBufferAlignment);
         graph.programs[kSource].arena.size += Bytes(kBufferAlignment);
         block.registers.push_back(spare);
         block.actors[0].out.push_back(1);
       }},
      {"S2", "register 'after' is 2x2, but S(0) of 7x2 gives 3x2 to rank 1",
       [](PhysicalGraph& graph) {
         // Row 7 goes to the first of the target, which is the second of the source.
         graph.layouts[0].global.shape = graph.layouts[1].global.shape = Shape{7, 2};
         graph.blocks[kSource].registers[0].local.shape = Shape{3, 2};
       }},
  };
  return kAll;
}

TEST_CASE("each rule about ranks of two placements, broken alone, gives its own message") {
  for (const Breakage& breakage : breakages()) {
    CAPTURE(std::string(breakage.message));
    PhysicalGraph graph = Overlap().graph();
    breakage.apply(graph);
    const std::vector<std::string> messages = validate(graph);
    REQUIRE(messages.size() >= 1);
    CHECK_MESSAGE(messages.size() == 1, messages.back());
    CHECK_MESSAGE(messages[0].starts_with(std::string(breakage.rule) + ": "), messages[0]);
    CHECK_MESSAGE(messages[0].find(breakage.message) != std::string::npos, messages[0]);
  }
}

}  // namespace
}  // namespace sextant::overlapping_placements_test
