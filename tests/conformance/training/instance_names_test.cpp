// One block may serve operators that differ in nothing but their name. Each is known by its
// instance: inputs get data of their own, reports and messages say who is meant.
#include "actor/calls/kernel_contexts.h"
#include "actor/runtime.h"
#include "backends/cpu/cpu_backend.h"
#include "core/files/logical_graph_json.h"
#include "core/graphs/operator.h"
#include "core/graphs/physical_graph_text.h"
#include "core/operators/movement/sources.h"
#include "core/text/json_reader.h"
#include "io/training_host.h"
#include "models/wide_deep.h"
#include "simulator/costs/models.h"
#include "simulator/modes/simulate.h"
#include "simulator/reports/operator_use.h"
#include "tests/conformance/training/training_runs.h"

#include <doctest/doctest.h>
#include <fmt/core.h>

#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace sextant::instance_names_test {
namespace {

using Names = std::set<std::string>;

CpuOptions inline_cpu() {
  CpuOptions options;
  options.queues = CpuQueueKind::kInline;
  return options;
}

// As `sextant run` has them: inputs are filled by the host of the program.
std::vector<double> losses(const TrainingCase& training, const std::string& strategy,
                           TrainingHost& host) {
  const PhysicalGraph graph = compile_case(training, strategy);
  CpuWorld world(graph, inline_cpu());
  run_all(graph, world.devices(), host, training.steps);
  std::vector<double> all;
  for (const StepMetrics& metrics : host.steps()) all.push_back(metrics.loss());
  return all;
}

void check_equal(const std::vector<double>& found, const std::vector<double>& wanted) {
  REQUIRE(found.size() == wanted.size());
  // Of f64: sums of another order differ by about 1e-16 per term.
  for (std::size_t i = 0; i < found.size(); ++i)
    CHECK(std::abs(found[i] - wanted[i]) < 1e-10 * std::abs(wanted[i]));
}

// How many blocks of the first program serve actors of several names.
std::int64_t shared_blocks(const PhysicalGraph& graph) {
  std::map<BlockId, Names> names;
  for (const Instance& instance : graph.programs[ProgramId(0)].instances)
    names[instance.block].insert(graph.actor_name(instance, 0));
  std::int64_t shared = 0;
  for (const auto& [block, of_block] : names) shared += of_block.size() > 1 ? 1 : 0;
  return shared;
}

// Deep and wide ids have equal shapes, types and limits.
TrainingCase twin_wide_deep() {
  TrainingCase training;
  training.build = [](std::int64_t samples, DType dtype) {
    return build_graph(WideDeepConfig{.name = "twins",
                                      .wide_fields = 4,
                                      .wide_vocab = 100,
                                      .deep_fields = 4,
                                      .deep_vocab = 100,
                                      .embedding = 3,
                                      .dense = 5,
                                      .hidden = {8, 8},
                                      .initializer_range = 0.3},
                       samples, dtype);
  };
  training.global_batch = 4;
  training.steps = 2;
  return training;
}

TEST_CASE("equal inputs of Wide & Deep get data of their own, whatever the plan") {
  const TrainingCase training = twin_wide_deep();
  REQUIRE(shared_blocks(compile_case(training, "micro_batch=4")) > 0);
  std::vector<double> of_program, of_tests;
  for (const char* strategy :
       {"pp=2 micro_batch=4", "micro_batch=4", "micro_batch=1", "dp=2 micro_batch=2",
        "tp=2 micro_batch=4", "dp=2 tp=2 pp=2 micro_batch=1"}) {
    CAPTURE(strategy);
    TrainingHost host(5);
    const std::vector<double> found = losses(training, strategy, host);
    const std::vector<double> other = train(training, strategy, inline_cpu()).losses;
    if (of_program.empty()) of_program = found;
    if (of_tests.empty()) of_tests = other;
    check_equal(found, of_program);
    check_equal(other, of_tests);
  }
}

// The loss is the mean of labels - 1 * tokens; labels are above 0, so their signs count them. With
// `apart` both are in one stage or in two.
LogicalGraph next_token_graph(std::int64_t samples, bool apart) {
  const std::string text = fmt::format(
      R"({{"schema": "sextant.graph/1", "name": "next",
       "operators": [
        {{"name": "tokens", "kind": "input", "layer": 0,
          "attributes": {{"shape": [{0}, 5], "dtype": "i32", "limit": 1000}}}},
        {{"name": "w", "kind": "parameter", "layer": 0,
          "attributes": {{"shape": [5], "dtype": "f64", "init": "ones", "init_std": 0.0}}}},
        {{"name": "x", "kind": "cast", "inputs": ["tokens"], "layer": 0, "attributes": {{"dtype": "f64"}}}},
        {{"name": "wx", "kind": "mul", "inputs": ["x", "w"], "layer": 0}},
        {{"name": "pass1", "kind": "scale", "inputs": ["wx"], "layer": 1, "attributes": {{"factor": 1.0}}}},
        {{"name": "pass2", "kind": "scale", "inputs": ["pass1"], "layer": 2, "attributes": {{"factor": 1.0}}}},
        {{"name": "labels", "kind": "input", "layer": {1},
          "attributes": {{"shape": [{0}, 5], "dtype": "i32", "limit": 1000}}}},
        {{"name": "y", "kind": "cast", "inputs": ["labels"], "layer": 3, "attributes": {{"dtype": "f64"}}}},
        {{"name": "difference", "kind": "sub", "inputs": ["y", "pass2"], "layer": 3}},
        {{"name": "sum", "kind": "reduce_sum", "inputs": ["difference"], "layer": 3, "attributes": {{"dims": [0, 1]}}}},
        {{"name": "places", "kind": "sign", "inputs": ["y"], "layer": 3}},
        {{"name": "count", "kind": "reduce_sum", "inputs": ["places"], "layer": 3, "attributes": {{"dims": [0, 1]}}}}],
       "loss": {{"sum": "sum", "count": "count"}}}})",
      samples, apart ? 3 : 0);
  const JsonDocument document(text, "next.json");
  return std::move(graph_from_json(document.root()).graph);
}

// In the text 0, 1, 2, ... every label is its token + 1, so the first loss is 1.
TEST_CASE("labels of a graph file are shifted though they are an input like its tokens") {
  std::vector<std::int32_t> ids(900);
  std::iota(ids.begin(), ids.end(), 0);
  const TokenData data(std::move(ids));
  for (const bool apart : {false, true}) {
    TrainingCase training;
    training.build = [apart](std::int64_t samples, DType) {
      return next_token_graph(samples, apart);
    };
    training.global_batch = 4;
    training.steps = 1;
    if (!apart) REQUIRE(shared_blocks(compile_case(training, "micro_batch=4")) > 0);
    for (const char* strategy : {"micro_batch=4", "micro_batch=2", "pp=2 micro_batch=2",
                                 "dp=2 micro_batch=1", "tp=2 micro_batch=4"}) {
      CAPTURE(strategy);
      CAPTURE(apart);
      TrainingHost host(data, 5);
      CHECK(losses(training, strategy, host) == std::vector<double>{1.0});
    }
  }
}

// Layers 1 and 2 are alike but for the names of their operators, `layer3.mask` and `layer4.mask`
// differ in the layer alone.
TrainingCase twin_layers() {
  TrainingCase training;
  training.build = [](std::int64_t samples, DType dtype) {
    LogicalGraph graph(builtin_operators());
    const auto op = [&](std::string kind, std::string name, int layer, std::vector<TensorId> inputs,
                        Attributes attributes = {}) {
      return graph.output(graph.add({.kind = std::move(kind),
                                     .name = std::move(name),
                                     .attributes = std::move(attributes),
                                     .inputs = std::move(inputs),
                                     .outputs = {},
                                     .phase = Phase::kForward,
                                     .layer = layer,
                                     .parameter = std::nullopt}));
    };
    ParameterInfo info;
    info.initializer = {Initializer::Kind::kNormal, 0.5};
    const TensorType type{{samples, 6}, dtype};
    TensorId x = add_input(graph, "x", 0, type);
    for (const std::string side : {"left", "right"}) {
      const int layer = side == "left" ? 1 : 2;
      const TensorId w = add_parameter(graph, side + ".weight", layer, {{6, 6}, dtype}, info);
      x = op("tanh", side + ".bend", layer, {op("matmul", side + ".product", layer, {x, w})});
    }
    TensorId mask;
    for (const int layer : {3, 4}) {
      mask = add_input(graph, fmt::format("layer{}.mask", layer), layer, type);
      x = op("mul", fmt::format("layer{}.masked", layer), layer, {x, mask});
    }
    const Attributes all{{"dims", std::vector<std::int64_t>{0, 1}}};
    const TensorId sum = op("reduce_sum", "sum", 4, {x}, all);
    const TensorId places = op("sign", "places", 4, {op("mul", "square", 4, {mask, mask})});
    graph.set_loss(sum, op("reduce_sum", "count", 4, {places}, all));
    return graph;
  };
  training.global_batch = 4;
  training.steps = 2;
  return training;
}

Names names_in_messages(const PhysicalGraph& graph) {
  const ProgramId program = graph.ranks[Rank(0)].program;
  const OperandResolver resolver(graph, program);
  KernelContexts contexts(graph, Rank(0), 1,
                          [](const BufferRef&) -> std::byte* { return nullptr; });
  Names names;
  for (std::size_t run = 0; run < graph.program_of(Rank(0)).order.size(); ++run)
    for (const ActorCall& call : resolver.calls(RunId(run)))
      names.insert(contexts.of_call(call, graph.program_of(Rank(0)).order[RunId(run)]).actor->name);
  return names;
}

Names names_in_reports(const PhysicalGraph& graph) {
  const Cluster cluster = load_cluster("cpu");
  const auto cost = make_roofline(cluster, DType::kF32);
  const auto network = make_alpha_beta(cluster);
  Names names;
  for (const OperatorUse& use :
       operator_uses(graph, simulate_timeline(graph, *cost, *network, {}), *cost))
    names.insert(use.name);
  return names;
}

TEST_CASE("layers that share blocks keep the names of their operators") {
  const PhysicalGraph graph = compile_case(twin_layers(), "micro_batch=2");
  REQUIRE(shared_blocks(graph) > 0);
  CHECK(validate(graph) == std::vector<std::string>());
  CHECK(physical_graph_from_text(to_text(graph)) == graph);
  for (const Names& names : {names_in_messages(graph), names_in_reports(graph)})
    for (const std::string name : {"left.product", "right.product", "left.bend", "right.bend",
                                   "left.weight.adamw", "right.weight.adamw"}) {
      CAPTURE(name);
      CHECK(names.contains(name));
    }
  Names registers;
  for (const Instance& instance : graph.programs[ProgramId(0)].instances)
    for (std::size_t r = 0; r < graph.block_of(instance).registers.size(); ++r)
      registers.insert(graph.register_name(instance, static_cast<std::int32_t>(r)));
  CHECK((registers.contains("left.product") && registers.contains("right.product")));
  CHECK(synthetic_inputs(graph, nullptr) ==
        std::vector<std::string>{"layer3.mask", "layer4.mask", "x"});
}

TEST_CASE("inputs of two layers are two, whatever the plan") {
  const TrainingCase training = twin_layers();
  std::vector<double> wanted;
  for (const char* strategy : {"micro_batch=4", "pp=2 micro_batch=2", "dp=2 micro_batch=2"}) {
    CAPTURE(strategy);
    TrainingHost host(5);
    const std::vector<double> found = losses(training, strategy, host);
    if (wanted.empty()) wanted = found;
    check_equal(found, wanted);
  }
}

}  // namespace
}  // namespace sextant::instance_names_test
