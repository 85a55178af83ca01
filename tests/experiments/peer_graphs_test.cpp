// Graphs as other programs have them: attention in memory, whole layers recomputed.
#include "compiler/training/recompute.h"
#include "compiler/training/training_graph.h"
#include "core/base/error.h"
#include "core/graphs/operator.h"
#include "experiments/accuracy/kept_products.h"
#include "experiments/accuracy/pytorch_graph.h"
#include "experiments/accuracy/whole_layers.h"
#include "experiments/accuracy/written_attention.h"
#include "models/model.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace sextant::peer_graphs_test {
namespace {

ModelConfig small_model() { return load_model("gpt:layers=3,hidden=64,heads=4,vocab=256,seq=32"); }

std::int64_t count(const LogicalGraph& graph, const std::string& kind) {
  return std::count_if(graph.ops().begin(), graph.ops().end(),
                       [&](const LogicalOp& op) { return op.kind == kind; });
}

const LogicalTensor& tensor(const LogicalGraph& graph, const std::string& op) {
  return graph.tensor(graph.output(*graph.find_op(op)));
}

TEST_CASE("written attention keeps scores, probabilities and a mask of one byte per score") {
  const LogicalGraph forward = build_graph(small_model(), 2, 32, DType::kF16);
  const LogicalGraph written = with_written_attention(forward, 0.1);
  CHECK(count(written, "attention") == 0);
  for (const char* kind :
       {"attention_scores", "attention_probabilities", "attention_dropout", "attention_context"})
    CHECK(count(written, kind) == 3);
  CHECK(tensor(written, "layer1.attention.core_scores").type.shape == Shape{2, 4, 32, 32});
  const OpId dropout = *written.find_op("layer1.attention.core_dropout");
  CHECK(written.tensor(written.output(dropout, 1)).type.dtype == DType::kBool);
  CHECK(tensor(written, "layer1.attention.core_context").type ==
        forward.tensor(forward.output(*forward.find_op("layer1.attention.core"))).type);
  CHECK(count(with_written_attention(forward, 0), "attention_dropout") == 0);
}

// 2 samples x 4 heads x 32 x 32 scores x 16 x 2 FLOPs: the square, not the causal half.
TEST_CASE("written attention multiplies whole squares") {
  const LogicalGraph written =
      with_written_attention(build_graph(small_model(), 2, 32, DType::kF16), 0);
  const LogicalOp& op = written.op(*written.find_op("layer1.attention.core_scores"));
  const std::vector<TensorType> in = {written.tensor(op.inputs[0]).type,
                                      written.tensor(op.inputs[1]).type};
  const std::vector<TensorType> out = {written.tensor(op.outputs[0]).type};
  const Work work = written.registry().get(op.kind).work(in, out, {});
  CHECK(work.flops == 2.0 * 4 * 32 * 32 * 16 * 2);
  CHECK(work.kernel == "matmul:256x32x16");
}

TEST_CASE("written attention has gradients for queries, keys and values") {
  const LogicalGraph training = make_training_graph(
      with_written_attention(build_graph(small_model(), 2, 32, DType::kF16), 0.1));
  for (const char* kind :
       {"attention_scores_grad_q", "attention_scores_grad_k", "attention_probabilities_grad",
        "attention_dropout_grad", "attention_context_grad_p", "attention_context_grad_v"})
    CHECK(count(training, kind) == 3);
}

TEST_CASE("shared key/value heads cannot be written out") {
  ModelConfig model = small_model();
  model.kv_heads = 2;
  const LogicalGraph forward = build_graph(model, 2, 32, DType::kF16);
  CHECK_THROWS_WITH_AS(with_written_attention(forward, 0),
                       doctest::Contains("layer1.attention.core: grouped heads"), Error);
}

// What runs in forward per micro-batch in a block, without what makes nothing of micro-batches.
TEST_CASE("a whole layer repeats every forward operator that reads a micro-batch") {
  Strategy strategy;
  strategy.recompute.kind = Recompute::Kind::kFull;
  strategy = with_blocks_recomputed(strategy, 3);
  CHECK(strategy.recompute == Recompute{.kind = Recompute::Kind::kLayers, .layers = 3});
  const LogicalGraph training =
      make_training_graph(build_graph(small_model(), 2, 32, DType::kF16), strategy);
  const LogicalGraph whole = with_whole_layers_repeated(training);
  CHECK_FALSE(training.find_op("layer2.mlp.down.recompute"));
  for (const char* name : {"layer2.mlp.down.recompute", "layer2.mlp.residual.recompute",
                           "layer2.attention.q.recompute"}) {
    CAPTURE(name);
    REQUIRE(whole.find_op(name));
    CHECK(whole.op(*whole.find_op(name)).phase == Phase::kRecompute);
  }
  CHECK_FALSE(whole.find_op("head.recompute"));
  CHECK_FALSE(whole.find_op("embedding.recompute"));
}

// The last product of a block reads the repetition of the activation, not the kept one.
TEST_CASE("what a whole layer repeats reads repetitions") {
  Strategy strategy;
  strategy.recompute = {.kind = Recompute::Kind::kLayers, .layers = 3};
  const LogicalGraph whole = with_whole_layers_repeated(
      make_training_graph(build_graph(small_model(), 2, 32, DType::kF16), strategy));
  const LogicalOp& down = whole.op(*whole.find_op("layer2.mlp.down.recompute"));
  const LogicalOp& producer = whole.op(whole.tensor(down.inputs[0]).producer);
  CHECK(producer.phase == Phase::kRecompute);
  CHECK(whole.op(*down.recompute_of).name == "layer2.mlp.down");
}

TEST_CASE("a written loss lies in memory as f32, forward and backward") {
  const LogicalGraph forward = build_graph(small_model(), 2, 32, DType::kBF16);
  const LogicalGraph training = make_training_graph(as_pytorch(forward, {}));
  for (const char* kind : {"row_max", "row_sum_exp", "pick", "cross_entropy"})
    CHECK(count(training, kind) == 0);
  for (const char* kind : {"log_softmax", "nll_loss", "nll_loss_grad", "log_softmax_grad"}) {
    CHECK(count(training, kind) == 1);
    for (const LogicalOp& op : training.ops())
      if (op.kind == kind && op.kind != "nll_loss")
        CHECK(training.tensor(op.outputs[0]).type ==
              TensorType{.shape = {2, 32, 256}, .dtype = DType::kF32});
  }
  CHECK(tensor(training, "head").type.dtype == DType::kBF16);
  CHECK(tensor(training, "head.grad_input").type.dtype == DType::kBF16);
}

TEST_CASE("smoothed labels cannot be written out") {
  ModelConfig model = small_model();
  model.label_smoothing = 0.1;
  CHECK_THROWS_WITH_AS(as_pytorch(build_graph(model, 2, 32, DType::kBF16), {}),
                       doctest::Contains("loss: smoothed labels"), Error);
}

// q, k, v, o, up, down: the first, third and fifth of each of three blocks, and attention. Head and
// embedding repeat nothing.
TEST_CASE("of a block every second product is kept, and attention") {
  Strategy strategy;
  strategy.recompute.kind = Recompute::Kind::kFull;
  LogicalGraph training = make_training_graph(build_graph(small_model(), 2, 32, DType::kBF16));
  const std::vector<bool> kept = kept_products(training);
  const std::set<std::string> names = names_of(training, kept);
  for (const char* name : {"q", "v", "core"})
    CHECK(names.contains(std::string("layer2.attention.") + name));
  for (const char* name : {"k", "o"})
    CHECK_FALSE(names.contains(std::string("layer2.attention.") + name));
  CHECK(names.contains("layer2.mlp.up"));
  CHECK_FALSE(names.contains("layer2.mlp.down"));

  const LogicalGraph repeated =
      with_recompute(std::move(training), with_blocks_recomputed(strategy, 3), kept);
  const auto repeats = [&](const std::string& kind) {
    return std::count_if(repeated.ops().begin(), repeated.ops().end(), [&](const LogicalOp& op) {
      return op.phase == Phase::kRecompute && op.kind == kind;
    });
  };
  CHECK(repeats("attention") == 0);
  CHECK(repeats("matmul") == 3 * 2);  // k and o; nothing reads down's result in backward
}

// 2 x 32 x 64 elements of bf16 in and out, and f32 statistics of 2 x 32 rows, 13 times.
TEST_CASE("chained norms and positions move the bytes of their chains") {
  ModelConfig model = small_model();
  model.norm = ModelConfig::Norm::kRmsNorm;
  model.positions = ModelConfig::Positions::kRotary;
  const LogicalGraph forward = build_graph(model, 2, 32, DType::kBF16);
  const LogicalGraph chained = as_pytorch(forward, {.writes_loss = false, .chains_norms = true});
  CHECK(count(chained, "cross_entropy") == 1);
  const auto bytes = [](const LogicalGraph& graph, const std::string& name) {
    const LogicalOp& op = graph.op(*graph.find_op(name));
    std::vector<TensorType> in, out;
    for (const TensorId input : op.inputs) in.push_back(graph.tensor(input).type);
    for (const TensorId output : op.outputs) out.push_back(graph.tensor(output).type);
    const Work work = graph.registry().get(op.kind).work(in, out, op.attributes);
    return work.read.value + work.written.value;
  };
  CHECK(bytes(chained, "layer1.attention.q.rope") == 5 * bytes(forward, "layer1.attention.q.rope"));
  CHECK(bytes(chained, "layer1.mlp.norm") == 13 * (2 * 2 * 32 * 64 * 2 + 64 * 2 + 2 * 32 * 4));
}

}  // namespace
}  // namespace sextant::peer_graphs_test
