// Plans of one rank: every box is whole.
#include "tests/conformance/operators/plan_cases.h"

#include "actor/calls/operands.h"
#include "compiler/expand/expand.h"
#include "compiler/strategy/strategy.h"
#include "compiler/training/training_graph.h"
#include "core/graphs/fused_kinds.h"
#include "models/conv_net.h"
#include "models/model.h"
#include "simulator/cluster_files/cluster_file.h"
#include "simulator/costs/models.h"

#include <algorithm>
#include <set>
#include <type_traits>
#include <utility>
#include <variant>

namespace sextant {
namespace {

using Range = std::pair<std::int64_t, std::int64_t>;

// Of input `index` of a kind; of kinds with any number of inputs the last one's.
Range range_of(const std::string& kind, std::size_t index) {
  constexpr Range kAny{-3, 3};
  const OperatorDef* def = builtin_operators().find(kind);
  if (def == nullptr || def->examples == nullptr) return kAny;
  const OperatorExample example = def->examples().front();
  if (example.ranges.empty()) return kAny;
  return example.ranges[std::min(index, example.ranges.size() - 1)];
}

// Of an input of a fused operator: what its first reader says.
Range range_of_member_input(const Actor& actor, std::int32_t input) {
  for (const ActorMember& member : actor.members)
    for (std::size_t i = 0; i < member.in.size(); ++i)
      if (member.in[i] == ActorMember::Operand{ActorMember::Operand::Source::kInput, input})
        return range_of(member.kind, i);
  return {-3, 3};
}

KernelCase case_of(const ActorCall& call) {
  const Actor& actor = *call.actor;
  KernelCase made{.kind = actor.kind,
                  .attributes = actor.attributes,
                  .in = {},
                  .out = {},
                  .ranges = {},
                  .is_state = std::vector<bool>(call.out.size(), false),
                  .members = actor.members,
                  .inner = {},
                  .flops = actor.work.flops};
  for (const BufferRef& in : call.in) {
    const auto input = static_cast<std::int32_t>(made.in.size());
    made.ranges.push_back(actor.members.empty()
                              ? range_of(actor.kind, static_cast<std::size_t>(input))
                              : range_of_member_input(actor, input));
    // A plan ignores other labels than the examples do, so it is given none that are no class.
    if (!is_floating(in.info->local.dtype))
      made.ranges.back().first = std::max<std::int64_t>(made.ranges.back().first, 0);
    made.in.push_back(whole_operand(in.info->local));
  }
  for (const BufferRef& out : call.out) made.out.push_back(whole_operand(out.info->local));
  for (const InnerTensor& inner : actor.inner) made.inner.push_back(whole_operand(inner.local));
  if (const OperatorDef* def = builtin_operators().find(actor.kind))
    for (const std::size_t output : def->state_outputs) made.is_state[output] = true;
  return made;
}

bool is_on_device(const Actor& actor) {
  if (actor.communication) return false;
  const OperatorDef* def = builtin_operators().find(actor.kind);
  return def == nullptr || (!def->on_host && def->max_inputs > 0);
}

// Kind, types and attributes, members' included.
std::string key_of(const KernelCase& on) {
  std::string key = on.text();
  const auto add = [&key](const Attributes& attributes) {
    for (const auto& [name, value] : attributes.entries()) {
      // Names of tensors make no other call.
      if (name == "parameter" || name == "stream") continue;
      key += " " + name + "=";
      std::visit(
          [&key](const auto& v) {
            using V = std::decay_t<decltype(v)>;
            if constexpr (std::is_same_v<V, std::string>)
              key += v;
            else if constexpr (std::is_arithmetic_v<V>)
              key += std::to_string(v);
            else
              for (const std::int64_t entry : v) key += std::to_string(entry) + ",";
          },
          value);
    }
  };
  add(on.attributes);
  for (const ActorMember& member : on.members) add(member.attributes);
  return key;
}

ModelConfig dense(const std::string& family) {
  ModelConfig config = load_model(family);
  config.layers = 2;
  config.hidden = 128;
  config.heads = 2;
  config.kv_heads = family == "gpt2-xl" ? 2 : 1;
  config.head_size = 64;
  config.ffn = 384;
  config.vocab = 512;
  config.sequence = 64;
  return config;
}

std::vector<ModelConfig> small_models() {
  std::vector<ModelConfig> models{dense("gpt2-xl"), dense("llama2-7b"), dense("llama2-7b"),
                                  dense("gpt2-xl")};
  models[2].experts = 4;
  models[2].top_k = 2;
  models[2].ffn = 128;
  models[3].residual_dropout = 0.1;
  models[3].embedding_dropout = 0.1;
  models[3].label_smoothing = 0.1;
  return models;
}

// Blocks with and without a convolution in the shortcut; channels by eights, images of whole packs.
ConvNetConfig small_conv_net() {
  ConvNetConfig config;
  config.name = "conv";
  config.height = config.width = 16;
  config.classes = 8;
  config.stem_channels = 8;
  config.blocks = {2, 1};
  config.channels = {8, 16};
  return config;
}

PhysicalGraph compile_small(const LogicalGraph& forward, const Strategy& strategy) {
  Cluster cluster = load_cluster("cpu:memory=2GiB");
  cluster.device.fused = fused_kind_names();
  const auto cost = make_roofline(cluster, DType::kF32);
  const auto network = make_alpha_beta(cluster);
  OptimizerOptions optimizer;
  optimizer.max_gradient_norm = 1.0;
  const LogicalGraph training = make_training_graph(forward, strategy, optimizer);
  return compile(training, strategy, 2 * strategy.micro_batch, *cost, *network);
}

// Of all small models.
std::vector<PhysicalGraph> compile_small(DType dtype) {
  const Strategy two = parse_strategy("dp=1 micro_batch=2"),
                 four = parse_strategy("dp=1 micro_batch=4");
  std::vector<PhysicalGraph> graphs;
  for (const ModelConfig& model : small_models())
    graphs.push_back(
        compile_small(build_graph(model, two.micro_batch, model.sequence, dtype), two));
  const Strategy narrow = parse_strategy("dp=1 micro_batch=2 precision=fp8");
  for (const std::string family : {"gpt2-xl", "llama2-7b"}) {
    const ModelConfig model = dense(family);
    graphs.push_back(
        compile_small(build_graph(model, narrow.micro_batch, model.sequence, dtype), narrow));
  }
  graphs.push_back(compile_small(build_graph(small_conv_net(), four.micro_batch, dtype), four));
  return graphs;
}

}  // namespace

std::vector<KernelCase> plan_cases(const PhysicalGraph& graph) {
  std::vector<KernelCase> cases;
  std::set<std::string> keys;
  const ProgramId program(0);
  const OperandResolver resolver(graph, program);
  for (std::size_t run = 0; run < graph.programs[program].order.size(); ++run)
    for (const ActorCall& call : resolver.calls(RunId(run))) {
      if (!is_on_device(*call.actor) || call.in.empty()) continue;
      KernelCase made = case_of(call);
      if (keys.insert(key_of(made)).second) cases.push_back(std::move(made));
    }
  return cases;
}

std::vector<KernelCase> small_plan_cases() {
  std::vector<KernelCase> cases;
  std::set<std::string> keys;
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16})
    for (const PhysicalGraph& graph : compile_small(dtype))
      for (KernelCase& made : plan_cases(graph))
        if (keys.insert(key_of(made)).second) cases.push_back(std::move(made));
  return cases;
}

}  // namespace sextant
