// Which tensors of a compiled convolution net lie channels-last. Needs no GPU.
#include "backends/cuda/channels_last.h"
#include "compiler/expand/expand.h"
#include "compiler/strategy/strategy.h"
#include "compiler/training/training_graph.h"
#include "core/graphs/fused_kinds.h"
#include "models/conv_net.h"
#include "simulator/cluster_files/cluster_file.h"
#include "simulator/costs/models.h"

#include <doctest/doctest.h>

#include <map>
#include <string>

namespace sextant::channels_last_plan_test {
namespace {

PhysicalGraph compiled(DType dtype, const std::string& recipe = "dp=1 micro_batch=4") {
  ConvNetConfig config;
  config.name = "conv";
  config.height = config.width = 16;
  config.classes = 8;
  config.stem_channels = 8;
  config.blocks = {1, 1};
  config.channels = {8, 16};
  Cluster cluster = load_cluster("cpu:ranks=2");
  cluster.device.fused = fused_kind_names();
  const auto cost = make_roofline(cluster, DType::kF32);
  const auto network = make_alpha_beta(cluster);
  const Strategy strategy = parse_strategy(recipe);
  const std::int64_t batch = 4 * strategy.dp;
  const LogicalGraph training =
      make_training_graph(build_graph(config, batch, dtype), strategy, OptimizerOptions());
  return compile(training, strategy, batch, *cost, *network);
}

// By name, of tensors with four dims, whether they lie channels-last.
std::map<std::string, bool> images_of(const PhysicalGraph& graph) {
  const ChannelsLast last(graph, ProgramId(0));
  std::map<std::string, bool> images;
  for (const Block& block : graph.blocks)
    for (const Register& reg : block.registers)
      if (reg.local.shape.rank() == 4) images[block.name + "/" + reg.name] = last.contains(&reg);
  return images;
}

bool ends_with(const std::string& text, const std::string& end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

}  // namespace

TEST_CASE("images between the host and the classifier lie channels-last, weights do not") {
  int last = 0, weights = 0;
  for (const auto& [name, lies_last] : images_of(compiled(DType::kBF16))) {
    CAPTURE(name);
    last += lies_last ? 1 : 0;
    if (name.find("images") != std::string::npos) CHECK_FALSE(lies_last);  // three channels
    if (name.find("weight") != std::string::npos) {
      ++weights;
      CHECK_FALSE(lies_last);
    }
#ifdef SEXTANT_HAS_CUDNN
    if (ends_with(name, "/stem") || ends_with(name, "/stem.pool")) CHECK(lies_last);
#endif
  }
  CHECK(weights > 0);
#ifdef SEXTANT_HAS_CUDNN
  CHECK(last > 10);
#else
  CHECK(last == 0);
#endif
}

TEST_CASE("images of a rank that has some of the batch lie as those of the whole batch") {
  int both = 0;
  const auto whole = images_of(compiled(DType::kBF16));
  const auto parts = images_of(compiled(DType::kBF16, "dp=2 micro_batch=4"));
  for (const auto& [name, lies_last] : whole) {
    CAPTURE(name);
    const auto found = parts.find(name);
    if (found == parts.end()) continue;  // only one of them has this step of a norm
    CHECK(found->second == lies_last);
    ++both;
  }
  CHECK(both > 10);
}

TEST_CASE("images of 32 bits stay row-major") {
  for (const auto& [name, lies_last] : images_of(compiled(DType::kF32))) {
    CAPTURE(name);
    CHECK_FALSE(lies_last);
  }
}

}  // namespace sextant::channels_last_plan_test
