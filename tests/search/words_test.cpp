// Words per operator: labels against what inference and the compiler say, pins against the words
// they are to give.

#include "compiler/strategy/pins.h"
#include "compiler/training/training_graph.h"
#include "compiler/words/boxing_causes.h"
#include "core/base/error.h"
#include "core/graphs/operator.h"
#include "core/operators/layers/loss.h"
#include "core/operators/movement/sources.h"
#include "models/class_head.h"
#include "models/conv_net.h"
#include "models/model.h"
#include "models/wide_deep.h"
#include "search/min_sum/min_sum_search.h"
#include "search/words/plan_words.h"
#include "search/words/word_pins.h"
#include "search/words/words_problem.h"
#include "simulator/costs/models.h"

#include <doctest/doctest.h>
#include <fmt/core.h>

#include <algorithm>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace sextant::words_test {
namespace {

using Random = std::mt19937_64;

std::size_t draw(Random& random, std::size_t count) { return random() % count; }

LogicalGraph conv_net(std::int64_t batch) {
  ConvNetConfig config;
  config.name = "small conv net";
  config.height = config.width = 16;
  config.stem_channels = 8;
  config.stem_kernel = 3;
  config.stem_stride = 1;
  config.stem_pool = false;
  config.classes = 16;
  config.blocks = {1, 1};
  config.channels = {8, 16};
  return build_graph(config, batch, DType::kF32);
}

LogicalGraph wide_deep(std::int64_t batch) {
  WideDeepConfig config;
  config.name = "small wide and deep";
  config.deep_fields = 4;
  config.deep_vocab = 100'000;
  config.hidden = {64, 32};
  return build_graph(config, batch, DType::kF32);
}

LogicalGraph class_head(std::int64_t batch, std::int64_t classes) {
  ClassHeadConfig config;
  config.name = "class head";
  config.features = 64;
  config.hidden = {128};
  config.classes = classes;
  return build_graph(config, batch, DType::kF32);
}

LogicalGraph decoder(std::int64_t batch, std::int64_t layers) {
  ModelConfig config = load_model("gpt2-124m");
  config.name = "small";
  config.layers = layers;
  config.hidden = 64;
  config.heads = config.kv_heads = 4;
  config.head_size = 16;
  config.ffn = 256;
  config.vocab = 384;
  config.sequence = 32;
  return build_graph(config, batch, config.sequence, DType::kF32);
}

// Products, sums and curves of values drawn at random; what nobody reads is added up at the end.
LogicalGraph irregular(std::int64_t batch, std::uint64_t seed) {
  constexpr std::int64_t kWidth = 96, kClasses = 32;
  Random random(seed);
  LogicalGraph graph(builtin_operators());
  const auto add = [&](const std::string& kind, const std::string& name,
                       std::vector<TensorId> inputs, Attributes attributes = {}) {
    return graph.output(graph.add({.kind = kind,
                                   .name = name,
                                   .attributes = std::move(attributes),
                                   .inputs = std::move(inputs),
                                   .outputs = {},
                                   .layer = 0,
                                   .parameter = std::nullopt}));
  };
  const auto parameter = [&](const std::string& name, Shape shape) {
    ParameterInfo info;
    info.initializer = {Initializer::Kind::kNormal, 0.02};
    return add_parameter(graph, name, 0, {std::move(shape), DType::kF32}, info);
  };
  std::vector<TensorId> values = {
      add("embedding", "rows",
          {add_input(graph, "ids", 0, {{batch}, DType::kI32}, {4096, {}}),
           parameter("table", {4096, kWidth})})};
  for (int i = 0; i < 9; ++i) {
    const TensorId a = values[draw(random, values.size())];
    const TensorId b = values[draw(random, values.size())];
    const std::string name = fmt::format("op{}", i);
    switch (draw(random, 3)) {
      case 0:
        values.push_back(add("matmul", name, {a, parameter(name + ".w", {kWidth, kWidth})}));
        break;
      case 1:
        values.push_back(add("add", name, {a, b}));
        break;
      default:
        values.push_back(add("gelu", name, {a}, {{"approximate", std::string("tanh")}}));
    }
  }
  TensorId sum = values[0];
  for (std::size_t i = 1; i < values.size(); ++i)
    if (graph.uses(values[i]).empty()) sum = add("add", fmt::format("sum{}", i), {sum, values[i]});
  const TensorId logits = add("matmul", "logits", {sum, parameter("head", {kWidth, kClasses})});
  const TensorId labels = add_input(graph, "labels", 0, {{batch}, DType::kI32}, {kClasses, -100});
  const LossTensors loss = softmax_cross_entropy(graph, logits, labels, "loss", 0);
  graph.set_loss(loss.loss_sum, loss.token_count);
  return graph;
}

// A graph on a mesh with its problem.
struct Case {
  Case(std::string named, LogicalGraph (*forward)(std::int64_t), const std::string& settings,
       const std::string& cluster_name = "dgx-h100", std::int64_t acts = 2)
      : name(named + " " + settings),
        strategy(parse_strategy(settings)),
        cluster(load_cluster(cluster_name)),
        models(make_timing_models(cluster, DType::kF32)),
        micro_batches(acts),
        training(make_training_graph(forward(strategy.dp * strategy.micro_batch), strategy)),
        problem(
            make_words_problem(training, strategy, micro_batches, *models.network, *models.cost)) {}

  WordAssignment words(const std::vector<WordPin>& pins = {}) const {
    Strategy pinned = strategy;
    pinned.pins.insert(pinned.pins.end(), pins.begin(), pins.end());
    BoxingPlans by_bytes(BoxingObjective::kBytes);
    return words_of_strategy(training, pinned, by_bytes);
  }

  bool are_equal(const WordAssignment& a, const WordAssignment& b) const {
    for (std::size_t op = 0; op < training.ops().size(); ++op)
      if (a.of(OpId(op)) != b.of(OpId(op))) return false;
    return true;
  }

  std::string name;
  Strategy strategy;
  Cluster cluster;
  TimingModels models;
  std::int64_t micro_batches;
  LogicalGraph training;
  WordsProblem problem;
};

std::vector<Case> cases() {
  std::vector<Case> all;
  const auto irregular_3 = [](std::int64_t batch) { return irregular(batch, 3); };
  const auto irregular_4 = [](std::int64_t batch) { return irregular(batch, 4); };
  const auto few_classes = [](std::int64_t batch) { return class_head(batch, 64); };
  const auto many_classes = [](std::int64_t batch) { return class_head(batch, 1'000'000); };
  const auto block = [](std::int64_t batch) { return decoder(batch, 1); };
  const auto blocks = [](std::int64_t batch) { return decoder(batch, 2); };
  all.emplace_back("conv net", conv_net, "dp=4 micro_batch=2");
  all.emplace_back("wide and deep", wide_deep, "dp=4 micro_batch=16");
  all.emplace_back("few classes", few_classes, "dp=4 micro_batch=16");
  all.emplace_back("many classes", many_classes, "dp=4 micro_batch=16");
  all.emplace_back("irregular 3", irregular_3, "dp=4 micro_batch=16");
  all.emplace_back("irregular 4", irregular_4, "dp=2 tp=2 micro_batch=16");
  all.emplace_back("decoder", block, "tp=4 micro_batch=2");
  all.emplace_back("decoder", blocks, "dp=2 pp=2 micro_batch=2 zero=1");
  return all;
}

TEST_CASE("inference under the pins gives words of the least cost, and no pin can be left out") {
  for (const Case& c : cases()) {
    INFO(c.name);
    const MinSumSolution solution = solve_words(c.training, c.problem);
    REQUIRE(solution.labels);
    CHECK(solution.is_proven());
    const PinnedWords found = pin_words(c.training, c.problem, *solution.labels);
    const WordAssignment words = c.words(found.pins);
    const auto labels = c.problem.labels_of(words);
    REQUIRE(labels);
    CHECK(cost_of(c.problem.problem(), *labels) == solution.cost);
    CHECK(c.are_equal(words, found.words));
    for (std::size_t left_out = 0; left_out < found.pins.size(); ++left_out) {
      std::vector<WordPin> fewer = found.pins;
      fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(left_out));
      std::optional<WordAssignment> others;
      try {
        others = c.words(fewer);
      } catch (const Error& error) {
        CHECK(error.code() == ErrorCode::kInfeasible);
      }
      CHECK_FALSE((others && c.are_equal(*others, words)));
    }
    CHECK(found.pins.size() <= c.training.ops().size() / 5);
  }
}

TEST_CASE("a strategy whose own words are refused gets words by pins") {
  // Four heads cannot be split over three devices, as the strategy would.
  const Case c(
      "decoder", [](std::int64_t batch) { return decoder(batch, 1); }, "tp=3 micro_batch=2");
  CHECK_THROWS_AS(c.words(), Error);
  CHECK_FALSE(own_labels(c.training, c.problem));
  const MinSumSolution solution = solve_words(c.training, c.problem);
  REQUIRE(solution.labels);
  const PinnedWords found = pin_words(c.training, c.problem, *solution.labels);
  CHECK(c.are_equal(c.words(found.pins), found.words));
}

// Up to three pins of tensors, drawn from the labels that they have.
std::vector<WordPin> random_pins(const Case& c, Random& random) {
  std::vector<WordPin> pins;
  for (std::size_t more = 1 + draw(random, 3); more > 0; --more) {
    const std::size_t op = draw(random, c.training.ops().size());
    const OpVariable& own = c.problem.operators()[op];
    const bool is_parameter = !own.read.empty();
    if (c.training.ops()[op].outputs.empty()) continue;
    if (c.training.ops()[op].inputs.empty() && !is_parameter) continue;
    const std::size_t label = draw(random, own.choices.size());
    pins.push_back({.name = c.training.tensor(c.training.ops()[op].outputs[0]).name,
                    .input = std::nullopt,
                    .words = is_parameter ? own.read[label] : own.choices[label].words.outputs[0]});
  }
  return pins;
}

TEST_CASE("whatever words are pinned, inference gives labels, and none cost less than the least") {
  Random random(7);
  for (const Case& c : cases()) {
    INFO(c.name);
    const std::int64_t least = solve(c.problem.problem()).lower_bound;
    int inferred = 0;
    for (int i = 0; i < 40; ++i) {
      const std::vector<WordPin> pins = i == 0 ? std::vector<WordPin>() : random_pins(c, random);
      std::optional<WordAssignment> words;
      try {
        words = c.words(pins);
      } catch (const Error& error) {
        CHECK(error.code() == ErrorCode::kInfeasible);
        continue;
      }
      ++inferred;
      const auto labels = c.problem.labels_of(*words);
      REQUIRE(labels);
      CHECK(cost_of(c.problem.problem(), *labels) >= least);
    }
    CHECK(inferred > 5);
  }
}

TEST_CASE("a plan whose head outgrows the rest gets words of its own, and a step that is shorter") {
  const Cluster cluster = load_cluster("dgx-h100");
  SearchProblem problem;
  problem.training_graph = [](const Strategy& strategy) {
    return make_training_graph(class_head(strategy.dp * strategy.micro_batch, 1'000'000), strategy);
  };
  problem.global_batch = 64;
  problem.cluster = &cluster;
  problem.compute_dtype = DType::kF32;
  const SearchModels models = make_search_models(problem);
  const Strategy strategy = parse_strategy("dp=8 micro_batch=8");
  const Candidate plain =
      evaluate_strategy(problem.training_graph(strategy), strategy, problem.global_batch, models);
  const auto better = with_own_words(problem, models, plain);
  REQUIRE(better);
  CHECK(better->step_time.value < plain.step_time.value / 2);
  const NdSbp* head = pinned_words(better->strategy, "head.weight");
  REQUIRE(head != nullptr);
  CHECK(to_string(*head) == "(S(1), B)");
  // It may not take more memory than there is, nor longer than before.
  Candidate changed = plain;
  changed.capacity = Bytes(better->needed_memory.value - 1);
  CHECK_FALSE(with_own_words(problem, models, changed));
  changed = plain;
  changed.step_time = better->step_time;
  CHECK_FALSE(with_own_words(problem, models, changed));
}

// Of boxings alone: tables of one variable are the time of operators.
std::int64_t boxing_cost(const WordsProblem& problem, const Labels& labels) {
  MinSumProblem boxings = problem.problem();
  std::erase_if(boxings.tables, [](const CostTable& table) { return table.scope.size() < 2; });
  return cost_of(boxings, labels);
}

std::int64_t staged_boxing(const Case& c) {
  const StagedGraph graph = make_staged_graph(c.training, c.strategy, c.micro_batches,
                                              c.models.network.get(), c.models.cost.get());
  std::int64_t sum = 0;
  for (const BoxingCause& cause : boxing_causes(graph)) {
    const StagedOp& op = graph.ops[cause.boxing];
    sum +=
        acts_of(graph, op) * cost_of(graph, op, *c.models.network, c.models.cost.get()).each.value;
  }
  return sum;
}

TEST_CASE("what a strategy says holds in every label, and graphs of other settings are refused") {
  const Case c(
      "few classes", [](std::int64_t batch) { return class_head(batch, 64); },
      "dp=4 micro_batch=16 pin=head.weight:(S(0),B) pin=*.relu:(B,B)");
  int pinned = 0;
  for (std::size_t op = 0; op < c.training.ops().size(); ++op) {
    const bool is_head = c.training.ops()[op].name == "head.weight";
    if (!is_head && c.training.ops()[op].kind != "relu") continue;
    ++pinned;
    for (const WordChoice& choice : c.problem.operators()[op].choices)
      CHECK(to_string(choice.words.outputs[0]) == (is_head ? "(S(0), B)" : "(B, B)"));
  }
  CHECK(pinned == 2);
  for (const std::string text : {"cp=2", "tp=2 sp=on", "recompute=full", "tp=2 pieces=2", "zero=2"})
    CHECK_THROWS_AS(require_words_settings(parse_strategy(text)), Error);
  CHECK_THROWS_WITH(
      require_words_settings(parse_strategy("zero=3 dp=2")),
      "words per operator with zero=3: they are asked for graphs that no other setting "
      "cuts or repeats, wanted zero=0 or zero=1");
}

TEST_CASE("boxing costs what the compiler stages, copies for sums aside") {
  const auto few_classes = [](std::int64_t batch) { return class_head(batch, 64); };
  const auto costs = [](const Case& c) {
    return std::pair(boxing_cost(c.problem, *c.problem.labels_of(c.words())), staged_boxing(c));
  };
  const auto [wide, wide_staged] = costs({"wide and deep", wide_deep, "dp=4 micro_batch=16"});
  CHECK(wide > 0);
  CHECK(wide == wide_staged);
  const auto [head, head_staged] = costs({"few classes", few_classes, "dp=4 micro_batch=16"});
  CHECK(head > 0);
  CHECK(head == head_staged);
  // Statistics of a batch are read in every micro-batch, and their sum at the end.
  const auto [conv, conv_staged] = costs({"conv net", conv_net, "dp=4 micro_batch=2"});
  CHECK(conv <= conv_staged);
  CHECK(conv_staged - conv < conv_staged / 10);
}

}  // namespace
}  // namespace sextant::words_test
