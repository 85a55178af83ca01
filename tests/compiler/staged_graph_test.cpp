// The rules of staged graphs: a sound graph passes, each broken rule has its message.
#include "compiler/words/staged_graph.h"

#include <doctest/doctest.h>

#include <functional>
#include <string>

namespace sextant::staged_graph_test {
namespace {

Placement two_devices(int first) {
  return {.axes = {{"dp", 2}, {"tp", 1}}, .ranks = {Rank(first), Rank(first + 1)}};
}

const NdSbp kRows = {Sbp::split(0), Sbp::broadcast()};
const NdSbp kWhole = {Sbp::broadcast(), Sbp::broadcast()};
const NdSbp kPartial = {Sbp::partial(), Sbp::broadcast()};

class Builder {
 public:
  StagedTensorId tensor(const std::string& name, int stage, NdSbp words, int producer,
                        bool state = false) {
    return graph.tensors.add({.name = name,
                              .global = {Shape{4, 6}, DType::kF32},
                              .words = std::move(words),
                              .stage = stage,
                              .producer = StagedOpId(producer),
                              .is_state = state});
  }

  StagedOp& op(const std::string& kind, int stage, Rate rate) {
    StagedOp op;
    op.kind = kind;
    op.name = kind;
    op.stage = stage;
    op.rate = rate;
    graph.ops.push_back(std::move(op));
    return graph.ops.back();
  }

  StagedGraph graph;
};

// x (host) -> mul with weight w -> transfer -> gradient on stage 1, accumulated, reduced once, and
// an optimizer per step. Operators 0..6, tensors 0..5.
StagedGraph sound_graph() {
  Builder b;
  b.graph.placements = {two_devices(0), two_devices(2)};
  b.graph.micro_batches = 3;
  b.tensor("x", 0, kRows, 0);
  b.tensor("w", 1, kWhole, 6, true);
  b.tensor("y", 0, kRows, 1);
  b.tensor("y there", 1, kRows, 3);
  b.tensor("dw", 1, kPartial, 4);
  b.tensor("dw sum", 1, kWhole, 5);

  StagedOp& input = b.op("input", 0, Rate::kPerMicroBatch);
  input.queue = QueueRole::kHost;
  input.out = {StagedTensorId(0)};
  StagedOp& scale = b.op("scale", 0, Rate::kPerMicroBatch);
  scale.in = {StagedTensorId(0)};
  scale.out = {StagedTensorId(2)};
  StagedCommunication transfer{.primitive = Primitive::kTransfer,
                               .group_axes = {},
                               .peer = StagedOpId(3),
                               .side = Side::kSend,
                               .from = kRows,
                               .to = kRows,
                               .from_stage = 0,
                               .to_stage = 1};
  StagedOp& send = b.op("send", 0, Rate::kPerMicroBatch);
  send.queue = QueueRole::kTransferOutForward;
  send.in = {StagedTensorId(2)};
  send.communication = transfer;
  transfer.side = Side::kReceive;
  transfer.peer = StagedOpId(2);
  StagedOp& receive = b.op("receive", 1, Rate::kPerMicroBatch);
  receive.queue = QueueRole::kTransferInForward;
  receive.out = {StagedTensorId(3)};
  receive.communication = transfer;
  StagedOp& gradient = b.op("gradient", 1, Rate::kPerMicroBatch);
  gradient.in = {StagedTensorId(3), StagedTensorId(1)};
  gradient.out = {StagedTensorId(4)};
  StagedOp& reduce = b.op("all_reduce", 1, Rate::kPerStep);
  reduce.queue = QueueRole::kCollective;
  reduce.in = {StagedTensorId(4)};
  reduce.out = {StagedTensorId(5)};
  reduce.communication = StagedCommunication{.primitive = Primitive::kAllReduce,
                                             .group_axes = {0},
                                             .peer = StagedOpId::none,
                                             .side = Side::kBoth,
                                             .from = kPartial,
                                             .to = kWhole,
                                             .from_stage = 1,
                                             .to_stage = 1};
  StagedOp& update = b.op("adamw", 1, Rate::kPerStep);
  update.in = {StagedTensorId(5)};
  update.out = {StagedTensorId(1)};
  return b.graph;
}

TEST_CASE("a sound staged graph breaks no rule") { CHECK(validate(sound_graph()).empty()); }

TEST_CASE("each broken rule of a staged graph has its own message") {
  struct Break {
    const char* message;
    std::function<void(StagedGraph&)> how;
  };
  const std::vector<Break> breaks = {
      {"a step of 0 micro-batches", [](StagedGraph& g) { g.micro_batches = 0; }},
      {"tensor 'x' is on stage 7", [](StagedGraph& g) { g.tensors[StagedTensorId(0)].stage = 7; }},
      {"tensor 'x' has words",
       [](StagedGraph& g) { g.tensors[StagedTensorId(0)].words.pop_back(); }},
      {"of shape 4x6 has words",
       [](StagedGraph& g) { g.tensors[StagedTensorId(0)].words[0] = Sbp::split(2); }},
      {"tensor 'x' has no producer",
       [](StagedGraph& g) { g.tensors[StagedTensorId(0)].producer = StagedOpId::none; }},
      {"tensor 'x' is not an output of its producer",
       [](StagedGraph& g) { g.tensors[StagedTensorId(0)].producer = StagedOpId(1); }},
      {"operator 'scale' is on stage -1", [](StagedGraph& g) { g.ops[StagedOpId(1)].stage = -1; }},
      {"operator 'scale' is in layer -1", [](StagedGraph& g) { g.ops[StagedOpId(1)].layer = -1; }},
      {"has operand 99", [](StagedGraph& g) { g.ops[StagedOpId(1)].in[0] = StagedTensorId(99); }},
      {"operator 'gradient' on stage 1 has operand 'y' of stage 0",
       [](StagedGraph& g) { g.ops[StagedOpId(4)].in[0] = StagedTensorId(2); }},
      {"transfer 'send' has no other half",
       [](StagedGraph& g) { g.ops[StagedOpId(2)].communication->peer = StagedOpId::none; }},
      {"operator 'scale' reads 'x' before it is produced",
       [](StagedGraph& g) {
         std::swap(g.ops[StagedOpId(0)], g.ops[StagedOpId(1)]);
         g.tensors[StagedTensorId(0)].producer = StagedOpId(1);
         g.tensors[StagedTensorId(2)].producer = StagedOpId(0);
       }},
      {"operator 'gradient' reads 'w' before it is produced",
       [](StagedGraph& g) { g.tensors[StagedTensorId(1)].is_state = false; }},
      {"operator 'adamw' reads state 'w' after its update",
       [](StagedGraph& g) { g.ops[StagedOpId(6)].in.push_back(StagedTensorId(1)); }},
      {"operator 'scale' of kind scale is on the collective queue",
       [](StagedGraph& g) { g.ops[StagedOpId(1)].queue = QueueRole::kCollective; }},
      {"operator 'send' of kind send is on the transfer_in_forward queue",
       [](StagedGraph& g) { g.ops[StagedOpId(2)].queue = QueueRole::kTransferInForward; }},
      {"collective 'all_reduce' does not name mesh axes",
       [](StagedGraph& g) { g.ops[StagedOpId(5)].communication->group_axes = {}; }},
      {"collective 'all_reduce' does not name mesh axes",
       [](StagedGraph& g) { g.ops[StagedOpId(5)].communication->group_axes = {2}; }},
      {"collective 'all_reduce' leaves stage 1",
       [](StagedGraph& g) { g.ops[StagedOpId(5)].communication->to_stage = 0; }},
      {"communication 'all_reduce' says from f32 (B, B)",
       [](StagedGraph& g) { g.ops[StagedOpId(5)].communication->from = kWhole; }},
      {"collective 'all_reduce' changes the type",
       [](StagedGraph& g) {
         g.tensors[StagedTensorId(5)].global.shape = Shape{4, 7};
       }},
      {"halves 'send' and 'receive' do not agree",
       [](StagedGraph& g) { g.ops[StagedOpId(2)].communication->to = kWhole; }},
      {"transfer 'send' stays on stage 1",
       [](StagedGraph& g) { g.ops[StagedOpId(2)].communication->from_stage = 1; }},
      {"half 'send' has 0 inputs", [](StagedGraph& g) { g.ops[StagedOpId(2)].in = {}; }},
      {"state 'w' is updated per micro-batch",
       [](StagedGraph& g) { g.ops[StagedOpId(6)].rate = Rate::kPerMicroBatch; }},
      {"tensor 'dw' is read both per micro-batch and per step",
       [](StagedGraph& g) {
         StagedOp reader = g.ops[StagedOpId(4)];
         reader.name = "reader";
         reader.in = {StagedTensorId(4)};
         reader.out = {};
         g.ops.push_back(reader);
       }},
      {"operator 'late reader' reads 'dw sum' per micro-batch, made at the end of the step",
       [](StagedGraph& g) {
         StagedOp reader = g.ops[StagedOpId(4)];
         reader.name = "late reader";
         reader.in = {StagedTensorId(5)};
         reader.out = {};
         g.ops.push_back(reader);
       }},
  };
  for (const Break& broken : breaks) {
    CAPTURE(broken.message);
    StagedGraph graph = sound_graph();
    broken.how(graph);
    bool found = false;
    for (const std::string& message : validate(graph))
      found = found || message.find(broken.message) != std::string::npos;
    CHECK(found);
  }
}

TEST_CASE("the dump shows one operator per line") {
  CHECK(to_text(sound_graph()) ==
        "micro_batches 3\n"
        "stage 0: [dp=2, tp=1] ranks 0 1\n"
        "stage 1: [dp=2, tp=1] ranks 2 3\n"
        "0 L0 forward micro_batch input input: -> x 4x6 f32 (S(0), B) activations\n"
        "0 L0 forward micro_batch scale scale: x (S(0), B) -> y 4x6 f32 (S(0), B) activations\n"
        "0 L0 forward micro_batch send send: y (S(0), B) [to stage 1 (S(0), B)]\n"
        "1 L0 forward micro_batch receive receive: -> y there 4x6 f32 (S(0), B) activations "
        "[from stage 0 (S(0), B)]\n"
        "1 L0 forward micro_batch gradient gradient: y there (S(0), B), w (B, B) -> dw 4x6 f32 "
        "(P(sum), B) activations\n"
        "1 L0 forward step all_reduce all_reduce: dw (P(sum), B) -> dw sum 4x6 f32 (B, B) "
        "activations [sum over dp]\n"
        "1 L0 forward step adamw adamw: dw sum (B, B) -> w 4x6 f32 (B, B) activations state\n");
}

}  // namespace
}  // namespace sextant::staged_graph_test
