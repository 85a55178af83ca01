// Models of two to four layers on up to eight devices.
#include "tests/search/small_spaces.h"

#include "compiler/training/training_graph.h"
#include "simulator/cluster_files/cluster_file.h"

#include <doctest/doctest.h>
#include <fmt/core.h>

#include <utility>

namespace sextant::small_spaces {
namespace {

std::vector<Strategy> leaves_below(const StrategySpace& space, const SpaceNode& node) {
  if (node.level == Level::kPieces) return {node.strategy};
  std::vector<Strategy> leaves;
  for (const SpaceNode& child : space.children(node))
    for (Strategy& leaf : leaves_below(space, child)) leaves.push_back(std::move(leaf));
  return leaves;
}

}  // namespace

ModelConfig small_gpt(std::int64_t layers, std::int64_t heads) {
  ModelConfig config = load_model("gpt2-124m");
  config.name = "small";
  config.layers = layers;
  config.hidden = 64;
  config.heads = config.kv_heads = heads;
  config.head_size = 64 / heads;
  config.ffn = 256;
  config.vocab = 384;
  config.sequence = 32;
  return config;
}

Cluster tight(std::string_view cluster, std::int64_t memory) {
  Cluster result = load_cluster(cluster);
  result.device.library_memory.context = {1 << 20, Provenance::kAssumed, "a test"};
  result.device.library_memory.communicator = {1 << 16, Provenance::kAssumed, "a test"};
  result.device.library_memory.workspace = {};
  result.device.memory = Bytes(memory + (1 << 20));
  return result;
}

std::vector<SearchInstance> instances() {
  return {
      {"two stages of cpu", small_gpt(2, 2), load_cluster("cpu:ranks=2,memory=2GiB"), 4,
       DType::kF32},
      {"four cpu ranks", small_gpt(3, 4), load_cluster("cpu:ranks=4,memory=2GiB"), 4, DType::kF32},
      {"one tight node", small_gpt(4, 4), tight("dgx-h100", 6 << 20), 8, DType::kBF16}};
}

Cluster mixed_cluster() {
  Cluster cluster = load_cluster("dgx-h100:nodes=2");
  cluster.devices_per_node = 2;
  cluster.other_devices.push_back(
      {.first_node = 1, .num_nodes = 1, .device = load_cluster("dgx-a100:nodes=1").device});
  return cluster;
}

Cluster measured_cluster() {
  Cluster cluster = load_cluster("cpu:ranks=4,memory=2GiB");
  MeasuredKernels measured;
  measured.dtype = DType::kF32;
  const double flops = cluster.device.peaks.front().flops_per_second.value * 10;
  const double bytes = cluster.device.memory_bandwidth.value * 10;
  for (const int size : {32, 64, 128, 256})
    measured.kernels.push_back({.kernel = fmt::format("matmul:{0}x{0}x{0}", size),
                                .flops = 2.0 * size * size * size,
                                .bytes = Bytes(12 * size * size),
                                .seconds = 2.0 * size * size * size / flops});
  for (const int kib : {4, 64, 512})
    measured.kernels.push_back({.kernel = "elementwise",
                                .flops = 1024.0 * kib,
                                .bytes = Bytes(1024 * kib),
                                .seconds = 1024.0 * kib / bytes});
  cluster.device.measured = measured;
  return cluster;
}

SearchProblem problem_of(const SearchInstance& instance) {
  SearchProblem problem;
  const ModelConfig model = instance.model;
  const DType dtype = instance.dtype;
  problem.training_graph = [model, dtype](const Strategy& strategy) {
    const std::int64_t samples = strategy.dp * strategy.micro_batch;
    return make_training_graph(build_graph(model, samples, model.sequence, dtype), strategy);
  };
  problem.shorter_graph = [model, dtype](const Strategy& strategy, int blocks) {
    ModelConfig shorter = model;
    shorter.layers = blocks;
    const std::int64_t samples = strategy.dp * strategy.micro_batch;
    return make_training_graph(build_graph(shorter, samples, model.sequence, dtype), strategy);
  };
  problem.global_batch = instance.global_batch;
  problem.cluster = &instance.cluster;
  problem.compute_dtype = instance.dtype;
  return problem;
}

StrategySpace space_of(const SearchInstance& instance, const StrategyFilter& filter) {
  return {instance.cluster.num_devices(), instance.global_batch,
          facts_of(problem_of(instance).training_graph(Strategy())), filter};
}

std::vector<Strategy> leaves_of(const StrategySpace& space) {
  std::vector<Strategy> leaves;
  for (const SpaceNode& mesh : space.meshes())
    for (Strategy& leaf : leaves_below(space, mesh)) leaves.push_back(std::move(leaf));
  return leaves;
}

void check_fates(const SearchResult& result) {
  CHECK(result.counted == result.simulated + result.cut_by_memory + result.cut_by_bound +
                              result.refused + result.open);
  CHECK(result.simulated == static_cast<std::int64_t>(result.plans.size()));
  std::int64_t rejected = 0;
  for (const Rejection& rejection : result.rejections) rejected += rejection.count;
  CHECK(rejected == result.cut_by_memory + result.refused);
}

ModelConfig tiny_gpt() {
  ModelConfig config = small_gpt(2, 2);
  config.hidden = 16;
  config.head_size = 8;
  config.ffn = 64;
  config.vocab = 64;
  return config;
}

std::vector<SearchInstance> tiny_instances() {
  Cluster mixed = mixed_cluster(), small = tight("dgx-h100", 200 << 10);
  mixed.devices_per_node = 1;
  small.devices_per_node = 2;
  return {{"two ranks", tiny_gpt(), load_cluster("cpu:ranks=2,memory=2GiB"), 2, DType::kF32},
          {"two mixed devices", tiny_gpt(), mixed, 1, DType::kBF16},
          {"two tight devices", tiny_gpt(), small, 2, DType::kBF16}};
}

}  // namespace sextant::small_spaces
