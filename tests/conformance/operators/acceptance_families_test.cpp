// Acceptance cases about convolutions (G19), heads (G35) and experts (G38), by every row of every
// operator of small graphs.
#include "core/base/error.h"
#include "core/graphs/operator.h"
#include "core/operators/layers/moe.h"
#include "core/operators/movement/sources.h"
#include "tests/conformance/operators/operator_runner.h"
#include "tests/conformance/operators/pieces.h"
#include "tests/conformance/operators/sharding.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

namespace sextant::acceptance_families_test {
namespace {

using Values = std::vector<double>;
using Integers = std::vector<std::int64_t>;

Values numbers(double first, std::int64_t count) {
  Values values(static_cast<std::size_t>(count));
  std::iota(values.begin(), values.end(), first);
  return values;
}

TensorType f64(Shape shape) { return {std::move(shape), DType::kF64}; }

// The rows of an operator over `parts` whose inputs have these words.
std::vector<SbpSignature> rows_with(const std::string& kind, const std::vector<TensorType>& inputs,
                                    const Attributes& attributes, const std::vector<Sbp>& words,
                                    std::int64_t parts) {
  const OperatorDef& def = builtin_operators().get(kind);
  std::vector<SbpSignature> found;
  for (const SbpSignature& row :
       def.signatures(inputs, def.infer(inputs, attributes), attributes)) {
    const std::vector<const SbpSignature*> one = {&row};
    if (row.inputs == words && fits(one, Hierarchy{parts})) found.push_back(row);
  }
  return found;
}

Sbp b() { return Sbp::broadcast(); }
Sbp s(std::size_t dim) { return Sbp::split(dim); }

TEST_CASE("G19: a convolution over a split width sums the windows at the border") {
  const Attributes attributes{{"padding", Integers{1}}, {"spatial", Integers{8}}};
  const TensorType x = f64({1, 1, 8}), w = f64({1, 1, 3});
  LogicalGraph graph(builtin_operators());
  const TensorId in = add_input(graph, "x", 0, x), weight = add_input(graph, "w", 0, w);
  const TensorId y = add_op(graph, "conv", {in, weight}, attributes);
  CHECK(check_all_splits(graph, {{in, numbers(1, 8)}, {weight, {1, 1, 1}}}).at(y) ==
        Values{3, 6, 9, 12, 15, 18, 21, 15});
  // No row leaves y split: that would need the neighbour's border.
  const auto rows = rows_with("conv", {x, w}, attributes, {s(2), b()}, 2);
  REQUIRE(rows.size() == 1);
  CHECK(rows[0].outputs == std::vector{Sbp::partial()});
}

TEST_CASE("G19: windows that touch need no halo, and the input gradient is split like the input") {
  const Attributes forward{{"stride", Integers{4}}, {"spatial", Integers{16}}};
  const Attributes backward{{"stride", Integers{4}}, {"shape", Integers{1, 1, 16}}};
  const TensorType x = f64({1, 1, 16}), w = f64({1, 1, 4}), y = f64({1, 1, 4});
  LogicalGraph graph(builtin_operators());
  const TensorId in = add_input(graph, "x", 0, x), weight = add_input(graph, "w", 0, w);
  const TensorId out = add_op(graph, "conv", {in, weight}, forward);
  const TensorId dx = add_op(graph, "conv_grad_input", {out, weight}, backward);
  const TensorValues values =
      check_all_splits(graph, {{in, numbers(1, 16)}, {weight, {1, 1, 1, 1}}});
  CHECK(values.at(out) == Values{10, 26, 42, 58});
  CHECK(values.at(dx) == Values{10, 10, 10, 10, 26, 26, 26, 26, 42, 42, 42, 42, 58, 58, 58, 58});
  for (const std::int64_t parts : {2, 4}) {
    CHECK(rows_with("conv", {x, w}, forward, {s(2), b()}, parts)[0].outputs == std::vector{s(2)});
    CHECK(rows_with("conv_grad_input", {y, w}, backward, {s(2), b()}, parts)[0].outputs ==
          std::vector{s(2)});
  }
  // Three parts would cut windows: partial sums.
  CHECK(rows_with("conv", {x, w}, forward, {s(2), b()}, 3)[0].outputs ==
        std::vector{Sbp::partial()});
}

TEST_CASE("G35: 32 query heads and 4 key/value heads go on over 8 parts, gradients summed") {
  const TensorType q = f64({1, 2, 32, 4}), kv = f64({1, 2, 4, 4}), lse = f64({1, 2, 32});
  const Attributes grouped{{"group", std::int64_t{8}}};
  CHECK(rows_with("attention", {q, kv, kv}, grouped, {s(2), s(2), s(2)}, 4).size() == 1);
  CHECK(rows_with("attention", {q, kv, kv}, grouped, {s(2), s(2), s(2)}, 8).empty());
  CHECK(rows_with("attention", {q, kv, kv}, grouped, {s(2), b(), b()}, 8).size() == 1);
  const auto backward = rows_with("attention_grad", {q, kv, kv, q, lse, q}, grouped,
                                  {s(2), b(), b(), s(2), s(2), s(2)}, 8);
  REQUIRE(backward.size() == 1);
  CHECK(backward[0].outputs == std::vector{s(2), Sbp::partial(), Sbp::partial()});
}

// Router, experts that multiply by numbers of their own, and back: tokens [G, T, h].
struct Experts {
  static constexpr std::int64_t kExperts = 4, kHidden = 3, kChoices = 2;
  LogicalGraph graph{builtin_operators()};
  TensorId tokens, router, gains, out;
  Routing routing;

  Experts(std::int64_t groups, std::int64_t per_group, std::int64_t capacity) {
    tokens = add_input(graph, "tokens", 0, f64({groups, per_group, kHidden}));
    router = add_input(graph, "router", 0, f64({groups, per_group, kExperts}));
    gains = add_input(graph, "gains", 0, f64({kExperts, 1, 1, kHidden}));
    routing = route_top_k(graph, router, kChoices, "route", 0);
    const TensorId places = dispatch_tokens(graph, tokens, routing, capacity, "dispatch", 0);
    const TensorId y = add_op(graph, "mul", {places, gains}, {});
    out = combine_tokens(graph, y, routing, "combine", 0);
  }

  TensorValues given() const {
    TensorValues values;
    Random random("experts");
    for (const TensorId input : {tokens, router, gains})
      for (std::int64_t i = 0; i < graph.tensor(input).type.shape.elements(); ++i)
        values[input].push_back(static_cast<double>(random.integer(-4, 4)));
    return values;
  }
};

// The same, token by token: an expert takes what comes until it is full.
Values token_by_token(const Experts& experts, const TensorValues& given, std::int64_t capacity) {
  const Shape& shape = experts.graph.tensor(experts.tokens).type.shape;
  const std::int64_t e = Experts::kExperts, h = Experts::kHidden;
  Values out(given.at(experts.tokens).size(), 0.0);
  for (std::int64_t group = 0; group < shape[0]; ++group) {
    std::vector<std::int64_t> taken(static_cast<std::size_t>(e), 0);
    for (std::int64_t t = group * shape[1]; t < (group + 1) * shape[1]; ++t) {
      const double* scores = &given.at(experts.router)[static_cast<std::size_t>(t * e)];
      std::vector<std::size_t> order(static_cast<std::size_t>(e));
      std::iota(order.begin(), order.end(), std::size_t{0});
      std::stable_sort(order.begin(), order.end(),
                       [&](std::size_t a, std::size_t b) { return scores[a] > scores[b]; });
      for (std::size_t choice = 0; choice < Experts::kChoices; ++choice) {
        const std::size_t expert = order[choice];
        if (taken[expert]++ >= capacity) continue;
        for (std::int64_t i = 0; i < h; ++i)
          out[static_cast<std::size_t>(t * h + i)] +=
              scores[expert] * given.at(experts.tokens)[static_cast<std::size_t>(t * h + i)] *
              given.at(experts.gains)[expert * static_cast<std::size_t>(h) +
                                      static_cast<std::size_t>(i)];
      }
    }
  }
  return out;
}

TEST_CASE(
    "G38: capacity is the same wherever the tokens are, and experts give the same by any row") {
  // 8 tokens, 4 experts, two choices, factor 1: room for 8 * 2 / 4 = 4, not 2 and 3.
  CHECK(expert_capacity(8, 2, 4, 1.0) == 4);
  CHECK(expert_capacity(7, 2, 4, 1.25) == 5);  // 4.375
  CHECK_THROWS_AS(expert_capacity(8, 2, 4, 0.0), Error);
  CHECK_THROWS_AS(expert_capacity(4096, 2, 1, 1e9), Error);
  for (const std::int64_t capacity : {1, 2, 4})
    for (const auto& [groups, tokens] : {std::pair<std::int64_t, std::int64_t>{1, 8}, {3, 5}}) {
      const Experts experts(groups, tokens, capacity);
      const TensorValues given = experts.given();
      CHECK(check_all_splits(experts.graph, given, 10).at(experts.out) ==
            token_by_token(experts, given, capacity));
    }
}

TEST_CASE("groups of tokens become places by group, and experts take their places by expert") {
  const TensorType tokens = f64({4, 5, 3}), choices{{4, 5, 2}, DType::kI32}, y = f64({4, 4, 2, 3});
  const Attributes to{{"experts", std::int64_t{4}}, {"capacity", std::int64_t{2}}};
  const auto out = [&](const std::string& kind, const std::vector<TensorType>& inputs,
                       const Attributes& attributes, const std::vector<Sbp>& words) {
    return rows_with(kind, inputs, attributes, words, 2).at(0).outputs;
  };
  // S(1) -> S(0) in front of the experts and back behind them: all-to-all.
  CHECK(out("moe_dispatch", {tokens, choices, choices}, to, {s(0), s(0), s(0)}) ==
        std::vector{s(1)});
  CHECK(out("moe_combine", {y, choices, choices}, {}, {s(1), s(0), s(0)}) == std::vector{s(0)});
  CHECK(out("moe_combine", {y, choices, choices}, {}, {s(0), b(), b()}) ==
        std::vector{Sbp::partial()});
  CHECK(rows_with("expert_position", {choices}, {{"experts", std::int64_t{4}}}, {s(1)}, 2).empty());
}

}  // namespace
}  // namespace sextant::acceptance_families_test
