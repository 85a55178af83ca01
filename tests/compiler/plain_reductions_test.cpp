// What a compiled step does for its gradients on many nodes: reductions over dp, and no gradient is
// filled up with zeros so that other devices can help.
#include "compiler/training/training_graph.h"
#include "compiler/words/stage.h"
#include "simulator/cluster_files/cluster_file.h"
#include "simulator/costs/models.h"
#include "tests/compiler/toy_models.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace sextant::plain_reductions_test {
namespace {

// Two layers as wide as those of GPT-3 175B: layer norms of 48 KiB, matrices of gigabytes.
constexpr ToyGpt kWide{.layers = 2,
                       .batch = 32,
                       .sequence = 2048,
                       .hidden = 12288,
                       .heads = 96,
                       .kv_heads = 96,
                       .vocab = 51200,
                       .ffn = 49152,
                       .compute = DType::kBF16};

StagedGraph staged_on(const std::string& cluster_name) {
  const Cluster cluster = load_cluster(cluster_name);
  const TimingModels models = make_timing_models(cluster, DType::kBF16);
  const Strategy strategy = parse_strategy("dp=32 tp=8 micro_batch=1");
  return make_staged_graph(make_training_graph(toy_gpt(kWide), strategy), strategy, 1,
                           models.network.get(), models.cost.get());
}

const StagedTensor& tensor(const StagedGraph& graph, StagedTensorId index) {
  return graph.tensors[index];
}

bool is_gradient(const StagedGraph& graph, const StagedOp& op) {
  for (const StagedTensorId out : op.out) {
    const MemoryClass memory = tensor(graph, out).memory;
    if (memory == MemoryClass::kGradients) return true;
    // What is between two steps of a boxing is a buffer of communication.
    if (memory == MemoryClass::kCommunication && op.phase == Phase::kOptimizer) return true;
  }
  return false;
}

std::string text_of(const StagedGraph& graph, const StagedOp& op) {
  return op.name + ": " + to_string(tensor(graph, op.in[0]).words) + " -> " +
         to_string(tensor(graph, op.out[0]).words);
}

TEST_CASE("gradients are reduced over dp as they are, whatever the devices beside could do") {
  for (const std::string cluster :
       {"dgx-h100:nodes=32", "dgx-a100:nodes=32", "hgx-h200:nodes=32"}) {
    CAPTURE(cluster);
    const StagedGraph graph = staged_on(cluster);
    std::string fills, wide;
    int over_dp = 0;
    for (const StagedOp& op : graph.ops) {
      if (op.in.empty() || op.out.empty() || !is_gradient(graph, op)) continue;
      // 96 MiB, whole on all devices of tp: there the ports of the others are worth a fill.
      if (op.name.starts_with("embedding.add_positions")) continue;
      if (op.kind == "box_local") fills += text_of(graph, op) + "\n";
      if (!op.communication || op.communication->primitive == Primitive::kTransfer) continue;
      if (op.communication->group_axes == std::vector<std::size_t>{0})
        ++over_dp;
      else
        wide += text_of(graph, op) + "\n";
    }
    CHECK(fills == "");
    CHECK(wide == "");
    CHECK(over_dp >= 20);
  }
}

}  // namespace
}  // namespace sextant::plain_reductions_test
