// Model -> training graph -> one rank's program -> device.
#include "tests/cuda/small_training.h"

#include "core/base/counter_rng.h"
#include "io/training_host.h"
#include "tests/conformance/training/training_runs.h"

#include <doctest/doctest.h>

#include <utility>

namespace sextant::testing {
namespace {

constexpr std::uint64_t kDataSeed = 5;

std::map<std::string, std::vector<std::byte>> state_of(Device& device, const PhysicalGraph& graph) {
  std::map<std::string, std::vector<std::byte>> state;
  const RankProgram& program = graph.program_of(Rank(0));
  for (const InstanceId i : program.instances.keys()) {
    const Block& block = graph.block_of(program.instances[i]);
    for (std::size_t r = 0; r < block.registers.size(); ++r) {
      const Register& reg = block.registers[r];
      if (!block.frames[static_cast<std::size_t>(reg.frame)].initially_full) continue;
      const auto bytes = device.host_view(i, static_cast<std::int32_t>(r), 0);
      state[program.instances[i].name + "/" + reg.name].assign(bytes.begin(), bytes.end());
    }
  }
  return state;
}

SmallTraining train(const PhysicalGraph& graph, const TokenData& tokens, std::int64_t steps,
                    std::span<Device* const> devices, const RuntimeOptions& runtime) {
  TrainingHost host(tokens, kDataSeed);
  SmallTraining result;
  result.issued = run_all(graph, devices, host, steps, runtime);
  for (const StepMetrics& metrics : host.steps()) result.losses.push_back(metrics.loss());
  return result;
}

}  // namespace

ModelConfig small_gpt() {
  ModelConfig config = tiny_gpt();
  config.name = "small-gpt";
  config.layers = 2;
  config.hidden = 128;
  config.heads = config.kv_heads = 2;
  config.head_size = 64;
  config.ffn = 320;
  config.vocab = 97;
  config.sequence = 33;
  config.initializer_range = 0.05;
  return config;
}

ModelConfig small_llama() {
  const ModelConfig gpt = small_gpt();
  ModelConfig config = tiny_llama();
  config.name = "small-llama";
  config.layers = 2;
  config.hidden = 256;
  config.heads = 4;
  config.kv_heads = 2;
  config.head_size = 64;
  config.ffn = 320;
  config.vocab = gpt.vocab;
  config.sequence = gpt.sequence;
  config.initializer_range = gpt.initializer_range;
  config.rope_theta = 10000.0;
  return config;
}

PhysicalGraph small_training_graph(const ModelConfig& model, DType dtype,
                                   std::int64_t micro_batches) {
  TrainingCase training;
  training.model = model;
  training.sequence = model.sequence;
  training.global_batch = 2 * micro_batches;
  training.dtype = dtype;
  training.optimizer = OptimizerOptions();
  training.optimizer.learning_rate = 1e-3;
  training.optimizer.loss_scale.kind = LossScale::Kind::kNone;  // small models need none in f16
  return compile_case(training, "micro_batch=2");
}

TokenData small_tokens(const ModelConfig& model) {
  std::vector<std::int32_t> ids;
  const CounterRng random(7, "tokens");
  std::int64_t id = 0;
  for (std::uint64_t i = 0; i < 4000; ++i) {
    const auto draw = static_cast<std::int64_t>(random.bits(i) >> 33);
    id = draw % 4 == 0 ? draw / 4 % model.vocab : (id + 3) % model.vocab;
    ids.push_back(static_cast<std::int32_t>(id));
  }
  return TokenData(std::move(ids));
}

SmallTraining train_on_cpu(const PhysicalGraph& graph, const TokenData& tokens,
                           std::int64_t steps) {
  CpuOptions options;
  options.seed = kWeightSeed;
  CpuWorld world(graph, options);
  return train(graph, tokens, steps, world.devices(), {});
}

SmallTraining train_on_gpu(const PhysicalGraph& graph, const TokenData& tokens, std::int64_t steps,
                           const CudaOptions& given, const RuntimeOptions& runtime) {
  CudaOptions options = given;
  options.seed = kWeightSeed;
  const std::unique_ptr<Device> device = make_cuda_device(options);
  device->prepare(graph, Rank(0));
  Device* const devices[] = {device.get()};
  SmallTraining result = train(graph, tokens, steps, devices, runtime);
  if (options.host_visible) result.state = state_of(*device, graph);
  return result;
}

}  // namespace sextant::testing
