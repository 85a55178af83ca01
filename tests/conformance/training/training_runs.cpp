// Model -> training graph -> compiled plan -> CPU world -> global tensors.
#include "tests/conformance/training/training_runs.h"

#include "actor/runtime.h"
#include "compiler/training/dropped_choices.h"
#include "compiler/words/stage.h"
#include "core/base/check.h"
#include "core/base/counter_rng.h"
#include "core/base/elements.h"
#include "core/graphs/fused_kinds.h"
#include "core/operators/pointwise/dropout.h"
#include "io/training_host.h"
#include "sbp/boxing.h"
#include "simulator/costs/models.h"
#include "tests/conformance/training/synthetic_host.h"

#include <algorithm>
#include <memory>
#include <utility>

namespace sextant {
namespace {

constexpr std::uint64_t kDataSeed = 5, kWeightSeed = 17;

// The same graph with dropout behind every residual sum, and of a parameter: the latter acts once
// per step, its gradient once per micro-batch.
LogicalGraph with_dropout(const LogicalGraph& original, double rate) {
  LogicalGraph graph(original.registry());
  std::vector<TensorId> copy_of(original.tensors().size());
  for (const LogicalOp& op : original.ops()) {
    LogicalOp copy = op;
    copy.outputs.clear();
    for (TensorId& input : copy.inputs) input = copy_of[input.index()];
    const OpId id = graph.add(std::move(copy));
    for (std::size_t i = 0; i < op.outputs.size(); ++i)
      copy_of[op.outputs[i].index()] = graph.output(id, i);
    if (op.name.ends_with(".residual") || op.name == "positions.weight")
      copy_of[op.outputs[0].index()] =
          add_dropout(graph, op.name + ".dropout", op.layer, graph.output(id), rate);
  }
  graph.set_loss(copy_of[original.loss_sum()->index()], copy_of[original.token_count()->index()]);
  return graph;
}

// Three of four tokens follow from the one before, so there is something to learn.
TokenData tokens_below(std::int64_t vocab) {
  std::vector<std::int32_t> ids;
  const CounterRng random(7, "tokens");
  std::int64_t id = 0;
  for (std::uint64_t i = 0; i < 400; ++i) {
    const auto draw = static_cast<std::int64_t>(random.bits(i) >> 33);
    id = draw % 4 == 0 ? draw / 4 % vocab : (id + 3) % vocab;
    ids.push_back(static_cast<std::int32_t>(id));
  }
  return TokenData(std::move(ids));
}

// Puts a rank's box into the global tensor; elements that are there already must be equal bits.
class GlobalTensor {
 public:
  explicit GlobalTensor(const Shape& shape)
      : shape_(shape),
        values_(static_cast<std::size_t>(shape.elements())),
        known_(values_.size(), false) {}

  void place(const std::string& name, Rank rank, const Shard& box,
             const std::vector<double>& local) {
    for (std::size_t i = 0; i < local.size(); ++i) {
      const std::size_t at = global_index(static_cast<std::int64_t>(i), box);
      require(!known_[at] || values_[at] == local[i], ErrorCode::kVerification,
              "'{}', element {}: rank {} holds {}, another rank {}", name, at, rank.value, local[i],
              values_[at]);
      values_[at] = local[i];
      known_[at] = true;
    }
  }
  bool is_complete() const {
    return std::all_of(known_.begin(), known_.end(), [](bool known) { return known; });
  }
  const std::vector<double>& values() const { return values_; }

 private:
  std::size_t global_index(std::int64_t local, const Shard& box) const {
    std::int64_t index = 0, stride = 1;
    for (std::size_t dim = shape_.rank(); dim-- > 0;) {
      index += (box.dims[dim].offset + local % box.dims[dim].extent) * stride;
      local /= box.dims[dim].extent;
      stride *= shape_[dim];
    }
    return static_cast<std::size_t>(index);
  }

  Shape shape_;
  std::vector<double> values_;
  std::vector<bool> known_;
};

// Name of what output `out` of an actor keeps between the steps.
std::string state_name(const Actor& actor, const std::string& name, std::size_t out) {
  static const std::map<std::string, std::vector<std::string>> kNames = {
      {"adamw", {"", ".m", ".v", ".step"}},
      {"lamb_direction", {".direction", ".m", ".v", ".step"}},
      {"momentum", {"", ".momentum", ".step"}},
      {"sgd", {"", ".step"}}};
  const std::string owner =
      actor.attributes.contains("parameter") ? actor.attributes.text("parameter") : name;
  const auto known = kNames.find(actor.kind);
  if (known != kNames.end() && out < known->second.size()) return owner + known->second[out];
  return out == 0 ? owner : owner + ":" + std::to_string(out);
}

// Global tensors of all registers that live from step to step, from the parts of all ranks.
class StateCollector {
 public:
  StateCollector(const PhysicalGraph& graph, const ReadRegister& read)
      : graph_(graph), read_(read) {}

  std::map<std::string, std::vector<double>> run() {
    for (const Rank rank : graph_.ranks.keys()) {
      const RankProgram& program = graph_.program_of(rank);
      for (const InstanceId i : program.instances.keys()) add_instance(rank, i);
    }
    std::map<std::string, std::vector<double>> state;
    for (const auto& [name, tensor] : tensors_) {
      require(tensor.is_complete(), ErrorCode::kVerification, "no rank holds some part of '{}'",
              name);
      state[name] = tensor.values();
    }
    return state;
  }

 private:
  void add_instance(Rank rank, InstanceId id) {
    const Instance& instance = graph_.program_of(rank).instances[id];
    const Block& block = graph_.block_of(instance);
    for (std::size_t a = 0; a < block.actors.size(); ++a) {
      const Actor& actor = block.actors[a];
      const std::string& name = graph_.actor_name(instance, static_cast<std::int32_t>(a));
      for (std::size_t out = 0; out < actor.out.size(); ++out) {
        const Register& reg = block.registers[static_cast<std::size_t>(actor.out[out])];
        if (!block.frames[static_cast<std::size_t>(reg.frame)].initially_full) continue;
        place(state_name(actor, name, out), rank, reg, read_(rank, id, actor.out[out]));
      }
    }
  }

  void place(const std::string& name, Rank rank, const Register& reg,
             const std::vector<std::byte>& bytes) {
    const Shard box = shard_of(graph_, reg.layout, rank);
    std::vector<double> local(static_cast<std::size_t>(box.local_shape().elements()));
    load_as_double(reg.local.dtype, bytes.data(), local);
    tensors_.try_emplace(name, graph_.layouts[reg.layout].global.shape)
        .first->second.place(name, rank, box, local);
  }

  const PhysicalGraph& graph_;
  const ReadRegister& read_;
  std::map<std::string, GlobalTensor> tensors_;
};

struct Models {
  std::unique_ptr<CostModel> cost;
  std::unique_ptr<NetworkModel> network;
};

// What the times are decides the issue order, never the numbers. Fused operators run their members
// here, so every plan may have all of them.
Models models() {
  Cluster cluster = load_cluster("cpu:memory=2GiB");
  cluster.device.fused = fused_kind_names();
  cluster.devices_per_node = 64;
  return {make_roofline(cluster, DType::kF32), make_alpha_beta(cluster)};
}

StagedGraph staged_case(const TrainingCase& training, const Strategy& strategy,
                        const Models& models) {
  return make_staged_graph(training_graph_of(training, strategy), strategy,
                           num_micro_batches(strategy, training.global_batch), models.network.get(),
                           models.cost.get());
}

}  // namespace

std::map<std::string, std::vector<double>> collect_state(const PhysicalGraph& graph,
                                                         const ReadRegister& read) {
  return StateCollector(graph, read).run();
}

std::map<std::string, std::vector<double>> collect_state(const PhysicalGraph& graph,
                                                         const CpuWorld& world) {
  return collect_state(graph, [&](Rank rank, InstanceId instance, std::int32_t reg) {
    return world.read_register(rank, instance, reg);
  });
}

OptimizerOptions visible_steps() {
  OptimizerOptions options;
  options.learning_rate = 0.02;
  options.epsilon = 1e-4;
  // Small models need none in f16, where the usual one overflows in the first steps and skips them.
  options.loss_scale.kind = LossScale::Kind::kNone;
  return options;
}

LogicalGraph training_graph_of(const TrainingCase& training, const Strategy& strategy) {
  const std::int64_t samples = strategy.dp * strategy.micro_batch;
  const LogicalGraph model =
      training.build ? training.build(samples, training.dtype)
                     : build_graph(training.model, samples, training.sequence, training.dtype);
  return make_training_graph(training.dropout > 0 ? with_dropout(model, training.dropout) : model,
                             strategy, training.optimizer);
}

ModelConfig tiny_gpt() {
  ModelConfig config;
  config.name = "tiny-gpt";
  config.layers = 4;
  config.hidden = 12;
  config.heads = 4;
  config.kv_heads = 4;
  config.head_size = 3;
  config.ffn = 13;
  config.vocab = 11;
  config.sequence = 7;
  config.initializer_range = 0.3;
  return config;
}

ModelConfig tiny_bert() {
  ModelConfig config = tiny_gpt();
  config.name = "tiny-bert";
  config.causal = false;
  config.post_norm = config.embedding_norm = config.head_transform = config.head_bias = true;
  config.token_types = 2;
  return config;
}

ModelConfig tiny_llama() {
  ModelConfig config = tiny_gpt();
  config.name = "tiny-llama";
  config.heads = 8;
  config.kv_heads = 4;
  config.head_size = 2;
  config.norm = ModelConfig::Norm::kRmsNorm;
  config.mlp = ModelConfig::Mlp::kSwiGlu;
  config.positions = ModelConfig::Positions::kRotary;
  config.attention_bias = config.output_bias = config.mlp_bias = false;
  config.tied_embeddings = false;
  config.rope_theta = 100.0;
  return config;
}

ModelConfig odd_gpt() {
  ModelConfig config = tiny_gpt();
  config.hidden = 35;
  config.head_size = 9;
  config.ffn = 37;
  config.vocab = 31;
  return config;
}

PhysicalGraph compile_case(const TrainingCase& training, const std::string& text,
                           const ExpandOptions& options) {
  const Strategy strategy = parse_strategy(text);
  const Models given = models();
  return compile(training_graph_of(training, strategy), strategy, training.global_batch,
                 *given.cost, *given.network, options);
}

PhysicalGraph compile_case_on(const std::vector<Rank>& ranks, const TrainingCase& training,
                              const std::string& text, const ExpandOptions& options) {
  const Strategy strategy = parse_strategy(text);
  const Models given = models();
  StagedGraph staged = staged_case(training, strategy, given);
  for (Placement& placement : staged.placements)
    for (Rank& rank : placement.ranks) rank = ranks.at(rank.index());
  ExpandOptions with_schedule = options;
  with_schedule.schedule = strategy.schedule;
  return expand(staged, *given.cost, *given.network, with_schedule);
}

std::vector<PairBytes> planned_traffic(const TrainingCase& training, const std::string& text) {
  const Strategy strategy = parse_strategy(text);
  const Models given = models();
  const StagedGraph staged = staged_case(training, strategy, given);
  std::map<std::pair<Rank, Rank>, Bytes> sums;
  for (const StagedOp& op : staged.ops) {
    if (!op.communication || op.communication->side == Side::kReceive) continue;
    const StagedCommunication& communication = *op.communication;
    const bool is_transfer = communication.side == Side::kSend;
    const BoxingStep step{is_transfer ? BoxingKind::kTransfer : BoxingKind::kCollective,
                          communication.primitive,
                          communication.reduce,
                          communication.from,
                          communication.to,
                          communication.group_axes};
    const Shape& shape = staged.tensors[op.in[0]].global.shape;
    const std::int64_t acts = op.rate == Rate::kPerMicroBatch ? staged.micro_batches : 1;
    for (const PairBytes& pair :
         reference_volume(step, {shape, communication.dtype},
                          staged.placements[static_cast<std::size_t>(communication.from_stage)],
                          staged.placements[static_cast<std::size_t>(communication.to_stage)]))
      sums[{pair.source, pair.destination}] += pair.bytes * acts;
  }
  std::vector<PairBytes> traffic;
  for (const auto& [pair, bytes] : sums) traffic.push_back({pair.first, pair.second, bytes});
  return traffic;
}

std::vector<PairBytes> planned_traffic_of_all(const TrainingCase& training,
                                              const std::string& strategy) {
  std::vector<PairBytes> traffic = planned_traffic(training, strategy);
  for (PairBytes& entry : traffic) entry.bytes = entry.bytes * training.steps;
  return traffic;
}

CpuOptions seeded_cpu(CpuQueueKind queues, CpuKernels kernels) {
  CpuOptions options;
  options.queues = queues;
  options.kernels = kernels;
  options.seed = kWeightSeed;
  options.rendezvous_timeout_ms = 60'000;
  return options;
}

TrainingResult train(const TrainingCase& training, const std::string& strategy,
                     const CpuOptions& cpu, const ExpandOptions& options) {
  return train(training, compile_case(training, strategy, options), cpu);
}

namespace {

void keep_metrics(const std::vector<StepMetrics>& steps, TrainingResult& result) {
  for (const StepMetrics& metrics : steps) {
    result.losses.push_back(metrics.loss());
    const auto dropped = metrics.values.find(kDroppedChoices);
    if (dropped != metrics.values.end()) result.dropped.push_back(dropped->second);
  }
}

}  // namespace

TrainingResult train_on(std::span<Device* const> devices, const ReadRegister& read,
                        const TrainingCase& training, const PhysicalGraph& graph) {
  TrainingResult result;
  if (training.build) {
    SyntheticHost host(kDataSeed);
    run_all(graph, devices, host, training.steps);
    keep_metrics(host.steps(), result);
  } else {
    const TokenData data = tokens_below(training.model.vocab);
    TrainingHost host(data, kDataSeed);
    run_all(graph, devices, host, training.steps);
    keep_metrics(host.steps(), result);
  }
  result.state = collect_state(graph, read);
  return result;
}

TrainingResult train(const TrainingCase& training, const PhysicalGraph& graph,
                     const CpuOptions& cpu) {
  CpuWorld world(graph, cpu);
  TrainingResult result = train_in(world, training, graph);
  for (std::size_t rank = 0; cpu.measure_memory && rank < graph.ranks.size(); ++rank)
    result.memory.push_back(world.memory_use(Rank(rank)));
  return result;
}

}  // namespace sextant
