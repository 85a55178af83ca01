// What a plan promises about memory and completeness, and what refuses it when the promise is
// broken: each fault is planted and has its own message.
#include "actor/bytes/byte_order.h"
#include "actor/protocol/dry_run.h"
#include "compiler/expand/expand.h"
#include "compiler/memory/in_place.h"
#include "compiler/memory/memory_report.h"
#include "compiler/training/training_graph.h"
#include "compiler/words/coverage.h"
#include "compiler/words/stage.h"
#include "core/base/error.h"
#include "core/graphs/operator.h"
#include "core/graphs/views.h"
#include "core/operators/layers/loss.h"
#include "core/operators/layers/moe.h"
#include "core/operators/layers/softmax.h"
#include "core/operators/movement/sources.h"
#include "tests/compiler/toy_chain.h"
#include "tests/compiler/toy_models.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

namespace sextant::memory_checks_test {
namespace {

using testing::ToyChain;

constexpr std::int64_t kGiB = std::int64_t{1} << 30;

PhysicalGraph expand_toy(const ToyChain& chain, const ExpandOptions& options = {}) {
  return expand(testing::toy_chain(chain), testing::toy_operators(), testing::ToyCost(),
                testing::ToyNetwork(3, 2), options);
}

PhysicalGraph compile_toy(const LogicalGraph& forward, const std::string& strategy,
                          std::int64_t global_batch, const ExpandOptions& options = {}) {
  const Strategy parsed = parse_strategy(strategy);
  return compile(make_training_graph(forward, parsed), parsed, global_batch, testing::ToyCost(),
                 testing::ToyNetwork(3, 2), options);
}

// Run i takes place from i to i + 1.
ProgramMemory report_in_issue_order(const PhysicalGraph& graph, ProgramId program,
                                    std::size_t windows = 10) {
  std::vector<Time> begin, end;
  for (std::size_t run = 0; run < graph.programs[program].order.size(); ++run) {
    begin.push_back(Time(1000 * static_cast<std::int64_t>(run)));
    end.push_back(Time(1000 * static_cast<std::int64_t>(run) + 1000));
  }
  return report_memory(graph, program, begin, end, windows);
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::string refusal(const std::function<void()>& attempt) {
  try {
    attempt();
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::kInfeasible);
    return error.what();
  }
  return "accepted";
}

// --- reports -------------------------------------------------------------------------------------

// G60: blocks of 1000 weights, an embedding of 2000, a norm of 16 and a head of 2000. A weight is
// here one unit of the arena, 64 elements of f32: a block is [512, 125] or [125, 512].
LogicalGraph uneven_model() {
  LogicalGraph graph(builtin_operators());
  int layer = 0;
  const auto op = [&](std::string kind, std::string name, std::vector<TensorId> inputs,
                      Attributes attributes = {}) {
    LogicalOp added;
    added.kind = std::move(kind);
    added.name = std::move(name);
    added.inputs = std::move(inputs);
    added.attributes = std::move(attributes);
    added.layer = layer;
    return graph.output(graph.add(std::move(added)));
  };
  const auto parameter = [&](const std::string& name, Shape shape) {
    ParameterInfo info;
    info.initializer = {Initializer::Kind::kNormal, 0.02};
    return add_parameter(graph, name, layer, {std::move(shape), DType::kF32}, info);
  };
  const TensorId tokens = add_input(graph, "tokens", 0, {{4, 3}, DType::kI32}, {250, {}});
  TensorId x = op("embedding", "embedding", {tokens, parameter("table", {250, 512})});
  for (layer = 1; layer <= 8; ++layer) {
    const std::string name = "layer" + std::to_string(layer) + ".block";
    const Shape shape = layer % 2 == 1 ? Shape{512, 125} : Shape{125, 512};
    x = op("matmul", name, {x, parameter(name + ".w", shape)});
  }
  x = op("layer_norm", "norm", {x, parameter("gamma", {512}), parameter("beta", {512})},
         {{"epsilon", 1e-5}});
  const TensorId logits =
      op("matmul", "logits", {x, parameter("head", {250, 512})}, {{"transpose_w", true}});
  const TensorId labels = add_input(graph, "labels", layer, {{4, 3}, DType::kI32}, {250, -100});
  const LossTensors loss = softmax_cross_entropy(graph, logits, labels, "loss", layer);
  graph.set_loss(loss.loss_sum, loss.token_count);
  return graph;
}

TEST_CASE("G60: weights are reported per stage, and the largest stage is the peak") {
  const PhysicalGraph graph =
      compile_toy(uneven_model(), "pp=4 micro_batch=4 first_layers=1 last_layers=3", 16);
  REQUIRE(graph.programs.size() == 4);
  std::vector<std::int64_t> weights;
  for (std::size_t stage = 0; stage < 4; ++stage) {
    Bytes bytes;
    for (const MemoryOwner& owner : report_in_issue_order(graph, ProgramId(stage)).owners)
      if (owner.memory == MemoryClass::kParameters && owner.name != "loss.grad_seed")
        bytes += owner.bytes;  // (the seed of the backward pass is made once per step too)
    weights.push_back(bytes.value / kBufferAlignment);
  }
  CHECK(weights == std::vector<std::int64_t>{3000, 2000, 2000, 5016});
  CHECK(std::max_element(weights.begin(), weights.end()) - weights.begin() == 3);
  CHECK(std::accumulate(weights.begin(), weights.end(), std::int64_t{0}) / 4 == 3004);
}

TEST_CASE("a report in issue order has the planned peak, and its owners and windows add up to it") {
  ExpandOptions options;
  options.slot_lifetime = SlotLifetime::kIssueOrder;
  for (const char* strategy : {"dp=2 tp=2 micro_batch=1", "pp=2 micro_batch=1 schedule=1f1b",
                               "pp=2 dp=2 micro_batch=1 schedule=gpipe zero=1"}) {
    CAPTURE(strategy);
    const Strategy parsed = parse_strategy(strategy);
    ToyGpt model;
    model.batch = parsed.dp * parsed.micro_batch;
    const PhysicalGraph graph = compile_toy(toy_gpt(model), strategy, 8, options);
    for (const ProgramId p : graph.programs.keys()) {
      const ArenaPlan& arena = graph.programs[p].arena;
      const ProgramMemory memory = report_in_issue_order(graph, p);
      CHECK(memory.peak == arena.lower_bound);
      CHECK(memory.by_class == arena.peak_by_class);
      Bytes owned;
      for (const MemoryOwner& owner : memory.owners) owned += owner.bytes;
      CHECK(owned == memory.peak);
      CHECK(std::is_sorted(memory.owners.begin(), memory.owners.end(),
                           [](const auto& a, const auto& b) { return a.bytes > b.bytes; }));
      CHECK(memory.over_time.size() == 10);
      CHECK(*std::max_element(memory.over_time.begin(), memory.over_time.end()) == memory.peak);
      CHECK(memory.over_time.front() < memory.peak);
      CHECK(memory.classes_over_time.size() == 10);
      for (std::size_t window = 0; window < 10; ++window)
        CHECK(std::accumulate(memory.classes_over_time[window].begin(),
                              memory.classes_over_time[window].end(),
                              Bytes()) == memory.over_time[window]);
      CHECK(std::count(memory.classes_over_time.begin(), memory.classes_over_time.end(),
                       memory.by_class) > 0);
    }
  }
}

// --- over memory ---------------------------------------------------------------------------------

TEST_CASE("a plan that does not fit is refused with what is missing, by class and by tensor") {
  ExpandOptions options;
  const PhysicalGraph graph = compile_toy(toy_gpt({}), "pp=2 micro_batch=4", 8, options);
  const Bytes peak = peak_memory(graph);
  options.memory = peak;
  CHECK_NOTHROW(compile_toy(toy_gpt({}), "pp=2 micro_batch=4", 8, options));
  options.memory = peak - Bytes(1);
  const std::string text =
      refusal([&] { compile_toy(toy_gpt({}), "pp=2 micro_batch=4", 8, options); });
  CHECK(contains(text, "the plan needs " + to_text(peak) + " on each device of 'stage"));
  CHECK(contains(text, "1 B too much"));
  for (const char* part : {"parameters", "optimizer", "activations", "largest tensor"})
    CHECK(contains(text, part));
}

// Top-1 routing of 4096 tokens of 1024 elements to 8 experts.
LogicalGraph moe_model(double factor) {
  LogicalGraph graph(builtin_operators());
  const auto op = [&](std::string kind, std::string name, std::vector<TensorId> inputs, int layer,
                      Attributes attributes = {}) {
    LogicalOp added;
    added.kind = std::move(kind);
    added.name = std::move(name);
    added.inputs = std::move(inputs);
    added.attributes = std::move(attributes);
    added.layer = layer;
    return graph.output(graph.add(std::move(added)));
  };
  const auto parameter = [&](const std::string& name, int layer, Shape shape) {
    ParameterInfo info;
    info.initializer = {Initializer::Kind::kNormal, 0.02};
    const TensorId stored =
        add_parameter(graph, name, layer, {std::move(shape), DType::kF32}, info);
    return op("cast", name + ".cast", {stored}, layer, {{"dtype", std::string("bf16")}});
  };
  const TensorId tokens = add_input(graph, "tokens", 0, {{1, 4096}, DType::kI32}, {64, {}});
  const TensorId x = op("embedding", "embedding", {tokens, parameter("table", 0, {64, 1024})}, 0);
  const TensorId scores = op("matmul", "router", {x, parameter("router.w", 1, {1024, 8})}, 1);
  const TensorId probabilities = softmax(graph, scores, 2, "probabilities", 1);
  const Routing routing = route_top_k(graph, probabilities, 1, "routing", 1);
  const TensorId there =
      dispatch_tokens(graph, x, routing, expert_capacity(4096, 1, 8, factor), "dispatch", 1);
  const TensorId back = combine_tokens(graph, there, routing, "combine", 1);
  const TensorId logits = op("matmul", "logits", {back, parameter("head", 2, {1024, 64})}, 2);
  const TensorId labels = add_input(graph, "labels", 2, {{1, 4096}, DType::kI32}, {64, -100});
  const LossTensors loss = softmax_cross_entropy(graph, logits, labels, "loss", 2);
  graph.set_loss(loss.loss_sum, loss.token_count);
  return graph;
}

TEST_CASE("G67: an absurd capacity factor is refused with the size of its buffer, before memory") {
  ExpandOptions options;
  options.memory = Bytes(80 * kGiB);
  const std::string strategy = "micro_batch=1";
  CHECK_NOTHROW(compile_toy(moe_model(1.25), strategy, 1, options));
  // 16384 x 4096 / 8 places x 8 experts x 1024 elements x 2 bytes = 2^37 bytes.
  const std::string text = refusal([&] { compile_toy(moe_model(16384), strategy, 1, options); });
  CHECK(contains(text, "with 128 GiB"));
  CHECK(contains(text, "which has 80.0 GiB"));
  CHECK_THROWS_AS(moe_model(1e15), Error);
}

// --- nothing missing, nothing twice --------------------------------------------------------------

TEST_CASE("a layer that is missing, twice or incomplete is named") {
  const StagedGraph staged = testing::toy_chain({.layers = {2, 2}, .micro_batches = 2});
  const PhysicalGraph good = expand_toy({.layers = {2, 2}, .micro_batches = 2});
  REQUIRE(check_layers(staged, good).empty());

  PhysicalGraph bad = good;
  auto& instances = bad.programs[ProgramId(1)].instances.values();
  std::erase_if(instances, [](const Instance& instance) { return instance.layer == 3; });
  REQUIRE(check_layers(staged, bad).size() == 1);
  CHECK(contains(check_layers(staged, bad).front(), "layer 3 is missing from program 'stage1'"));

  bad = good;  // a copy of layer 0 beside the layers of stage 1
  for (const Instance& instance : good.programs[ProgramId(0)].instances)
    if (instance.layer == 0) bad.programs[ProgramId(1)].instances.push_back(instance);
  REQUIRE(check_layers(staged, bad).size() == 1);
  CHECK(contains(check_layers(staged, bad).front(), "layer 0 is in program 'stage1' with"));
  CHECK(contains(check_layers(staged, bad).front(), "operators, but not on its stage"));

  bad = good;
  bad.programs[ProgramId(0)].instances.push_back(bad.programs[ProgramId(0)].instances.front());
  REQUIRE(check_layers(staged, bad).size() == 1);
  CHECK(contains(check_layers(staged, bad).front(), "in program 'stage0' with"));
}

TEST_CASE("a layer that no stage has, and an operator that two stages have, are named") {
  const Strategy strategy = parse_strategy("pp=2 micro_batch=4");
  const LogicalGraph training = make_training_graph(toy_gpt({}), strategy);
  const StagedGraph good = make_staged_graph(training, strategy, 2, nullptr);
  REQUIRE(check_layers(training, good).empty());
  StagedGraph bad = good;
  std::erase_if(bad.ops.values(), [](const StagedOp& op) { return op.layer == 2; });
  REQUIRE(check_layers(training, bad).size() == 1);
  CHECK(contains(check_layers(training, bad).front(), "layer 2 is missing"));
  bad = good;
  const auto gelu = std::find_if(bad.ops.begin(), bad.ops.end(),
                                 [](const StagedOp& op) { return op.kind == "gelu"; });
  REQUIRE(gelu != bad.ops.end());
  StagedOp again = *gelu;
  again.stage = 1 - again.stage;
  bad.ops.push_back(again);
  REQUIRE(check_layers(training, bad).size() == 1);
  CHECK(contains(check_layers(training, bad).front(), "is on stage 0 and on stage 1"));
}

// --- registers, orders, bytes --------------------------------------------------------------------

TEST_CASE("a register too few is refused with the frame that has no credit") {
  const PhysicalGraph graph =
      compile_toy(toy_gpt({.batch = 1}), "pp=2 micro_batch=1 schedule=gpipe", 4);
  std::size_t tried = 0;
  for (std::size_t i = 0; i < graph.programs[ProgramId(0)].instances.size(); ++i)
    for (std::size_t f = 0; f < graph.programs[ProgramId(0)].instances[InstanceId(i)].frames.size();
         ++f) {
      const Instance& instance = graph.programs[ProgramId(0)].instances[InstanceId(i)];
      const bool is_host = graph.block_of(instance).actors.front().queue == QueueRole::kHost;
      if (is_host || instance.frames[f].num_registers < 4) continue;
      PhysicalGraph tight = graph;
      --tight.programs[ProgramId(0)].instances[InstanceId(i)].frames[f].num_registers;
      const std::string text = refusal([&] { dry_run(tight); });
      CHECK(contains(text, "the issue order of rank 0 cannot run"));
      CHECK(contains(text, "credit"));
      ++tried;
    }
  CHECK(tried > 0);
}

// Two ranks that hold 65 and 64 columns, so each has a program of its own.
PhysicalGraph two_classes(const ExpandOptions& options = {}) {
  ToyGpt model;
  model.ffn = 129;
  return compile_toy(toy_gpt(model), "tp=2 micro_batch=4", 8, options);
}

TEST_CASE("without one of its guards a program uses bytes without order, and both uses are named") {
  std::size_t removed = 0, reported = 0;
  for (const Schedule schedule : {Schedule::kOneFOneB, Schedule::kZeroBubbleH1}) {
    ExpandOptions options;
    options.schedule = schedule;
    const PhysicalGraph good =
        expand_toy({.layers = {2, 2, 2}, .micro_batches = 4, .dp = 2, .gather = true}, options);
    for (const ProgramId p : good.programs.keys())
      for (std::size_t g = 0; g < good.programs[p].guards.size(); ++g) {
        PhysicalGraph bad = good;
        const Guard guard = bad.programs[p].guards[g];
        bad.programs[p].guards.erase(bad.programs[p].guards.begin() +
                                     static_cast<std::ptrdiff_t>(g));
        const std::vector<std::string> messages = check_byte_order(bad, p);
        ++removed;
        const auto names = [&](const std::string& message) {
          return contains(message, "run " + std::to_string(guard.later.value)) &&
                 contains(message, "run " + std::to_string(guard.earlier.value));
        };
        reported += std::any_of(messages.begin(), messages.end(), names) ? 1 : 0;
        if (!std::any_of(messages.begin(), messages.end(), names) && !messages.empty())
          MESSAGE(messages.front());
      }
  }
  CHECK(removed > 10);
  CHECK(reported == removed);
}

// --- in place ------------------------------------------------------------------------------------

TEST_CASE("outputs take over inputs that die, never those that are read later") {
  ExpandOptions options;
  std::size_t taken = 0;
  for (const char* strategy : {"micro_batch=4", "tp=2 micro_batch=4", "pp=2 micro_batch=4"}) {
    options.in_place = true;
    const PhysicalGraph with = compile_toy(toy_gpt({}), strategy, 8, options);  // validated: B6, B7
    options.in_place = false;
    const PhysicalGraph without = compile_toy(toy_gpt({}), strategy, 8, options);
    for (const Block& block : with.blocks)
      for (const Actor& actor : block.actors) {
        if (!actor.in_place) continue;
        ++taken;
        if (is_view_kind(actor.kind)) continue;
        const auto allowed = overwritten_inputs(actor.kind);
        CHECK(std::find(allowed.begin(), allowed.end(),
                        static_cast<std::size_t>(actor.in_place->in)) != allowed.end());
      }
    for (const Block& block : without.blocks)
      for (const Actor& actor : block.actors) CHECK_FALSE(actor.in_place.has_value());
    for (const ProgramId p : with.programs.keys())
      CHECK(with.programs[p].arena.size <= without.programs[p].arena.size);
  }
  CHECK(taken > 5);
}

TEST_CASE("a reshape moves no byte, though both its sides are read later") {
  for (const char* strategy : {"micro_batch=4", "tp=2 micro_batch=4", "pp=2 micro_batch=4"}) {
    CAPTURE(strategy);
    const PhysicalGraph graph = compile_toy(toy_gpt({}), strategy, 8, ExpandOptions());
    int views = 0, kept = 0;
    for (const Block& block : graph.blocks)
      for (const Actor& actor : block.actors) {
        if (actor.kind != "reshape") continue;
        ++views;
        CHECK(is_view(actor));
        CHECK(actor.work.read + actor.work.written == Bytes(0));
        CHECK(view_roots(block)[static_cast<std::size_t>(actor.out[0])] != actor.out[0]);
      }
    CHECK(views >= 8);
    for (const ProgramId p : graph.programs.keys()) {
      const RankProgram& program = graph.programs[p];
      // What attention made is read by its gradient, what it is reshaped to by that of `o`.
      for (const Link& link : program.links) {
        const auto roots = view_roots(graph.block_of(program.instances[link.from]));
        kept += std::count(roots.begin(), roots.end(), link.from_register) > 1 ? 1 : 0;
      }
      CHECK(check_byte_order(graph, p) == std::vector<std::string>());
    }
    CHECK(kept > 0);
  }
}

// [4, 6] -> [24] -> a relu over it, and a reader of the first behind that.
TEST_CASE("nobody takes over bytes that a view still holds") {
  for (const bool is_read_later : {false, true}) {
    LogicalGraph forward(builtin_operators());
    int names = 0;
    const auto add = [&](const char* kind, TensorId input, Attributes attributes = {}) {
      return forward.output(forward.add({.kind = kind,
                                         .name = kind + std::to_string(names++),
                                         .attributes = std::move(attributes),
                                         .inputs = {input},
                                         .outputs = {},
                                         .layer = 0,
                                         .parameter = std::nullopt}));
    };
    const TensorId x = add_input(forward, "x", 0, {{4, 6}, DType::kF32});
    const TensorId root = add("exp", x);
    const TensorId view = add("reshape", root, {{"shape", std::vector<std::int64_t>{24}}});
    add("relu", view);
    if (is_read_later) add("tanh", root);
    const PhysicalGraph graph =
        expand(make_staged_graph(forward, parse_strategy("micro_batch=4"), 2, nullptr),
               testing::ToyCost(), testing::ToyNetwork(3, 2), ExpandOptions());
    for (const Block& block : graph.blocks)
      for (const Actor& actor : block.actors) {
        if (actor.kind == "reshape") CHECK(is_view(actor));
        if (actor.kind == "relu") CHECK(actor.in_place.has_value() == !is_read_later);
      }
    CHECK(check_byte_order(graph, ProgramId(0)) == std::vector<std::string>());
  }
}

// --- symmetric region ----------------------------------------------------------------------------

TEST_CASE("rank classes of a stage find collective buffers at equal offsets, or are refused") {
  const PhysicalGraph good = two_classes();
  REQUIRE(good.programs.size() == 2);
  CHECK(validate(good).empty());
  CHECK(good.programs[ProgramId(0)].arena.size == good.programs[ProgramId(1)].arena.size);
  std::size_t symmetric = 0;
  for (const Block& block : good.blocks)
    for (const Frame& frame : block.frames) symmetric += frame.region == Region::kSymmetric ? 1 : 0;
  CHECK(symmetric > 0);

  // Apart the smaller class is smaller, and nothing is marked.
  ExpandOptions options;
  options.symmetric = false;
  const PhysicalGraph apart = two_classes(options);
  CHECK(apart.programs[ProgramId(1)].arena.lower_bound <
        apart.programs[ProgramId(0)].arena.lower_bound);
  for (const Block& block : apart.blocks)
    for (const Frame& frame : block.frames) CHECK(frame.region == Region::kPrivate);
  CHECK(good.programs[ProgramId(0)].arena.lower_bound ==
        apart.programs[ProgramId(0)].arena.lower_bound);  // the worst device pays nothing

  // A buffer of the second class moved, and one marked in one class only.
  PhysicalGraph moved = good;
  for (Instance& instance : moved.programs[ProgramId(1)].instances)
    for (std::size_t f = 0; f < instance.frames.size(); ++f)
      if (moved.block_of(instance).frames[f].region == Region::kSymmetric)
        for (Bytes& offset : instance.frames[f].slot_offsets) offset += Bytes(kBufferAlignment);
  moved.programs[ProgramId(1)].arena.size += Bytes(kBufferAlignment);
  const std::vector<std::string> messages = validate(moved);
  REQUIRE(messages.size() == 1);
  CHECK(messages.front().starts_with("M8: group 'stage0.tp"));
  CHECK(contains(messages.front(), "in program 'stage0', but at byte"));
  CHECK(contains(messages.front(), "in program 'stage0.rank1'"));
}

}  // namespace
}  // namespace sextant::memory_checks_test
