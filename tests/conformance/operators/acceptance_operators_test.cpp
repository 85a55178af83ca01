// Acceptance cases about single operators under split and partial words, with their given numbers:
// bias on partial sums (G14), norms (G20), class-split loss (G24, G25), split vocabulary (G26),
// tied table (G27), token counts (G28), halves of one block (G37).
#include "core/graphs/operator.h"
#include "core/operators/layers/loss.h"
#include "core/operators/movement/sources.h"
#include "tests/conformance/operators/operator_runner.h"
#include "tests/conformance/operators/pieces.h"
#include "tests/conformance/operators/sharding.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

namespace sextant::acceptance_operators_test {
namespace {

using Values = std::vector<double>;

Piece f64(Shape shape, Values values) {
  return whole({std::move(shape), DType::kF64}, std::move(values));
}
Piece i32(Shape shape, Values values) {
  return whole({std::move(shape), DType::kI32}, std::move(values));
}

Sbp b() { return Sbp::broadcast(); }
Sbp p(ReduceOp op = ReduceOp::kSum) { return Sbp::partial(op); }
Sbp s(std::size_t dim) { return Sbp::split(dim); }

bool is_claimed(const OperatorDef& def, const std::vector<TensorType>& inputs,
                const std::vector<TensorType>& outputs, const Attributes& attributes,
                const SbpSignature& row, std::int64_t parts) {
  const std::vector<SbpSignature> rows = def.signatures(inputs, outputs, attributes);
  const auto same = [&](const SbpSignature& other) {
    const std::vector<const SbpSignature*> product = {&other};
    return other.inputs == row.inputs && other.outputs == row.outputs &&
           fits(product, Hierarchy{parts});
  };
  return std::any_of(rows.begin(), rows.end(), same);
}

// Runs an operator over `parts` devices by one row, which it must claim.
std::vector<Piece> run_row(const std::string& kind, const std::vector<Piece>& inputs,
                           const SbpSignature& row, std::int64_t parts,
                           const Attributes& attributes = {}) {
  const OperatorDef& def = builtin_operators().get(kind);
  std::vector<TensorType> types;
  for (const Piece& input : inputs) types.push_back(input.global);
  const std::vector<TensorType> output_types = def.infer(types, attributes);
  REQUIRE(is_claimed(def, types, output_types, attributes, row, parts));
  OperandWords words;
  for (const Sbp& word : row.inputs) words.inputs.push_back({word});
  for (const Sbp& word : row.outputs) words.outputs.push_back({word});
  std::vector<Piece> outputs;
  for (const TensorType& type : output_types) outputs.push_back(blank(type));
  Random random("acceptance");
  return run_sharded(kind, attributes, inputs, outputs, words, {parts}, random);
}

TEST_CASE("G14: a bias is added once, however many parts split the contraction") {
  const Piece x = f64({1, 4}, {1, 2, 3, 4});
  const Piece w = f64({3, 4}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
  const Piece bias = f64({3}, {100, 200, 300});
  for (const std::int64_t parts : {2, 4}) {
    const Piece product =
        run_row("matmul", {x, w}, {{s(1), s(1)}, {p()}}, parts, {{"transpose_w", true}})[0];
    // Reduced first, or the bias made partial as well: both are rows; a whole bias is none.
    CHECK(run_row("bias_add", {product, bias}, {{b(), b()}, {b()}}, parts)[0].values ==
          Values{130, 270, 410});
    CHECK(run_row("bias_add", {product, bias}, {{p(), p()}, {p()}}, parts)[0].values ==
          Values{130, 270, 410});
    CHECK(!is_claimed(builtin_operators().get("bias_add"), {product.global, bias.global},
                      {product.global}, {}, {{p(), b()}, {p()}}, parts));
  }
}

TEST_CASE("G14: the partial products of two ranks are 5 17 29 and 25 53 81") {
  const std::vector<Piece> x = {f64({1, 2}, {1, 2}), f64({1, 2}, {3, 4})};
  const std::vector<Piece> w = {f64({3, 2}, {1, 2, 5, 6, 9, 10}),
                                f64({3, 2}, {3, 4, 7, 8, 11, 12})};
  const std::vector<Values> wanted = {{5, 17, 29}, {25, 53, 81}};
  for (std::size_t rank : {0, 1}) {
    std::vector<Piece> y = {blank({{1, 3}, DType::kF64})};
    run_operator("matmul", {{"transpose_w", true}}, {x[rank], w[rank]}, y);
    CHECK(y[0].values == wanted[rank]);
  }
}

TEST_CASE("G20: norms see the whole dim, and no row lets them see a part of it") {
  const Piece x = f64({1, 4}, {1, 2, 3, 4}), ones = f64({4}, {1, 1, 1, 1});
  const Piece zeros = f64({4}, {0, 0, 0, 0});
  const Attributes exact = {{"epsilon", 0.0}};
  const Values normed =
      run_row("layer_norm", {x, ones, zeros}, {{b(), b(), b()}, {b(), b(), b()}}, 2, exact)[0]
          .values;
  const Values wanted = {-1.341641, -0.447214, 0.447214, 1.341641};  // given to six digits
  for (std::size_t i = 0; i < 4; ++i) CHECK(std::abs(normed[i] - wanted[i]) < 5e-7);
  const Piece y = f64({1, 4}, {3, 4, 0, 0});
  const Values rms = run_row("rms_norm", {y, ones}, {{b(), b()}, {b(), b()}}, 2, exact)[0].values;
  const Values wanted_rms = {1.2, 1.6, 0, 0};
  for (std::size_t i = 0; i < 4; ++i) CHECK(std::abs(rms[i] - wanted_rms[i]) < 1e-15);
  CHECK(!is_claimed(builtin_operators().get("rms_norm"), {y.global, ones.global},
                    {y.global, {{1}, DType::kF64}}, exact, {{s(1), s(0)}, {s(1), b()}}, 2));
}

// The loss by its pieces, classes split over `parts`.
double class_split_loss(const Piece& logits, const Piece& labels, std::int64_t parts) {
  const Piece max = run_row("row_max", {logits}, {{s(1)}, {p(ReduceOp::kMax)}}, parts)[0];
  const Piece sum = run_row("row_sum_exp", {logits, max}, {{s(1), b()}, {p()}}, parts)[0];
  const Piece picked = run_row("pick", {logits, labels}, {{s(1), b()}, {p()}}, parts)[0];
  return run_row("cross_entropy", {logits, max, sum, picked, labels},
                 {{s(1), b(), b(), b(), b()}, {b(), b()}}, parts)[0]
      .values[0];
}

TEST_CASE("G24: no padding class enters the denominator, over any number of parts") {
  const Piece logits = f64({1, 3}, {1, 2, 3}), label = i32({1}, {2});
  // log(e + e^2 + e^3) - 3 = log(1 + e^-1 + e^-2) = 0.407606; 2 parts hold 2 and 1 classes, 4 and 8
  // leave some empty.
  for (const std::int64_t parts : {1, 2, 3, 4, 8})
    CHECK(std::abs(class_split_loss(logits, label, parts) - 0.407606) < 5e-7);
}

TEST_CASE("G24: the loss over 50257 classes does not depend on the number of parts") {
  // Equal logits: log V; a sum of V ones is exact, so a few roundings of 11 remain.
  const std::int64_t vocab = 50257;
  const Piece logits = f64({1, vocab}, Values(static_cast<std::size_t>(vocab), 2.0));
  for (const std::int64_t parts : {1, 2, 8}) {
    CHECK(std::abs(class_split_loss(logits, i32({1}, {50256}), parts) - std::log(50257.0)) < 1e-11);
  }
}

TEST_CASE("G25: label smoothing spreads over all classes, wherever they are split") {
  LogicalGraph graph(builtin_operators());
  const TensorId logits = add_input(graph, "logits", 0, {{1, 4}, DType::kF64});
  const TensorId labels = add_input(graph, "labels", 0, {{1}, DType::kI32});
  const LossTensors loss =
      softmax_cross_entropy(graph, logits, labels, "loss", 0, kIgnoreIndex, 0.1);
  const auto values = check_all_splits(graph, {{logits, {2, 1, 0, -1}}, {labels, {0}}});
  // log(e^2 + e + 1 + 1/e) = 2.440190; less 0.9 * 2 and less 0.1 / 4 * (2 + 1 + 0 - 1).
  CHECK(values.at(loss.loss_sum)[0] == doctest::Approx(0.590190).epsilon(1e-6));
  CHECK(values.at(loss.token_count)[0] == 1);
}

TEST_CASE("G26: every id is served by exactly one shard of the vocabulary") {
  Values rows;
  for (int v = 0; v < 10; ++v) rows.insert(rows.end(), {1.0 * v, 10.0 * v});
  const Piece ids = i32({4}, {0, 3, 9, 9}), table = f64({10, 2}, rows);
  CHECK(run_row("embedding", {ids, table}, {{b(), s(0)}, {p()}}, 4)[0].values ==
        Values{0, 0, 3, 30, 9, 90, 9, 90});
  const Piece upstream = f64({4, 2}, Values(8, 1.0));
  const Attributes vocab = {{"vocab", std::int64_t{10}}};
  Values wanted(20, 0.0);
  for (const std::size_t row : {0, 3, 9, 9}) wanted[2 * row] += 1, wanted[2 * row + 1] += 1;
  CHECK(wanted[18] == 2.0);
  CHECK(run_row("embedding_grad", {ids, upstream}, {{b(), b()}, {s(0)}}, 4, vocab)[0].values ==
        wanted);
  CHECK(run_row("embedding_grad", {ids, upstream}, {{s(0), s(0)}, {p()}}, 4, vocab)[0].values ==
        wanted);
}

// The block is cut into its halves before anything is paired, whatever words it has: parts of the
// block never meet parts of the wrong half.
TEST_CASE("G37: gate and up of one block pair with each other under every split of the block") {
  LogicalGraph graph(builtin_operators());
  const TensorId block = add_input(graph, "block", 0, {{1, 8}, DType::kF64});
  const auto half = [&](std::int64_t start) {
    return add_op(graph, "slice", {block},
                  {{"dim", std::int64_t{1}}, {"start", start}, {"stop", start + 4}});
  };
  const TensorId gate = add_op(graph, "silu", {half(0)}, {});
  const TensorId product = add_op(graph, "mul", {gate, half(4)}, {});
  const auto values = check_all_splits(graph, {{block, {1, 2, 3, 4, 10, 20, 30, 40}}}, 60);
  check_six_digits(values.at(product), {7.310586, 35.231883, 85.731671, 157.122206});
  // Two matrices, as models have them: columns of one stay beside the same columns of the other.
  const Piece activated = run_row("silu", {f64({1, 4}, {1, 2, 3, 4})}, {{s(1)}, {s(1)}}, 2)[0];
  check_six_digits(
      run_row("mul", {activated, f64({1, 4}, {10, 20, 30, 40})}, {{s(1), s(1)}, {s(1)}}, 2)[0]
          .values,
      {7.310586, 35.231883, 85.731671, 157.122206});
}

TEST_CASE("G27: a tied table sums the gradients of both its uses once") {
  const Attributes vocab = {{"vocab", std::int64_t{3}}};
  const Piece look_up = run_row("embedding_grad", {i32({1}, {1}), f64({1, 2}, {1, 1})},
                                {{b(), b()}, {b()}}, 2, vocab)[0];
  // Two tokens whose classes 1 and 2 receive slope one.
  const Piece x = f64({2, 2}, {0.5, -0.5, 2, 0}), dy = f64({2, 3}, {0, 1, 0, 0, 0, 1});
  const Attributes transposed = {{"transpose_w", true}};
  for (const SbpSignature& row :
       {SbpSignature{{s(0), s(0)}, {p()}}, SbpSignature{{b(), b()}, {b()}}}) {
    const Piece head = run_row("matmul_grad_weight", {x, dy}, row, 2, transposed)[0];
    const Values total = run_row("add", {look_up, head}, {{p(), p()}, {p()}}, 2)[0].values;
    CHECK(total == Values{0, 0, 1.5, 0.5, 2, 0});
    double squares = 0;
    for (const double value : total) squares += value * value;
    CHECK(std::abs(std::sqrt(squares) - 2.549510) < 5e-7);
  }
}

TEST_CASE("G28: ten and a hundred tokens give 320 / 110, not the mean of the means") {
  // Rows of loss 2 (10 of them) and 3 (100): log(sum) = 0, max = 0, picked = -loss.
  Values picked(110, -3.0);
  std::fill_n(picked.begin(), 10, -2.0);
  const Piece zeros = f64({110}, Values(110, 0.0)), ones = f64({110}, Values(110, 1.0));
  const Piece logits = f64({110, 2}, Values(220, 0.0)), labels = i32({110}, Values(110, 0.0));
  const std::vector<Piece> inputs = {logits, zeros, ones, f64({110}, picked), labels};
  const SbpSignature tokens_split{{s(0), s(0), s(0), s(0), s(0)}, {p(), p()}};
  const std::vector<Piece> outputs = run_row("cross_entropy", inputs, tokens_split, 2);
  CHECK(outputs[0].values[0] == 320.0);
  CHECK(outputs[1].values[0] == 110.0);
}

TEST_CASE("G28: the optimizer divides the summed gradient once by the token count") {
  Attributes attributes = builtin_operators().get("adamw").examples()[0].attributes;
  attributes.set("beta1", 0.5);
  std::vector<Piece> state = {f64({1}, {0}), f64({1}, {0}), f64({1}, {0}),
                              whole({{}, DType::kI64}, {0})};
  std::vector<Piece> control = {f64({2}, {0, 0})};
  run_operator("update_control", {}, {f64({}, {110})}, control);
  run_operator("adamw", attributes, {f64({1}, {320}), control[0]}, state);
  // m = (1 - beta1) 320 / 110.
  CHECK(state[1].values[0] == doctest::Approx(0.5 * (320.0 / 110.0)).epsilon(1e-15));
  CHECK(state[3].values[0] == 1.0);
}

TEST_CASE("a step without tokens changes no state") {
  const Attributes attributes = builtin_operators().get("adamw").examples()[0].attributes;
  std::vector<Piece> state = {f64({1}, {3}), f64({1}, {2}), f64({1}, {1}),
                              whole({{}, DType::kI64}, {5})};
  std::vector<Piece> control = {f64({2}, {7, 7})};
  run_operator("update_control", {}, {f64({}, {0})}, control);
  CHECK(control[0].values == Values{0, 0});
  run_operator("adamw", attributes, {f64({1}, {0}), control[0]}, state);
  CHECK(state[0].values[0] == 3.0);
  CHECK(state[1].values[0] == 2.0);
  CHECK(state[2].values[0] == 1.0);
  CHECK(state[3].values[0] == 5.0);
}

}  // namespace
}  // namespace sextant::acceptance_operators_test
