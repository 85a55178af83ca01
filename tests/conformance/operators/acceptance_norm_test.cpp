// Acceptance cases about norms of split tensors: layer and root mean square norm over a split dim
// (G20), batch norm over batches of unequal size (G22). Each case and random tensors like it run by
// every row of every operator.
#include "core/base/error.h"
#include "core/graphs/operator.h"
#include "core/operators/layers/norm_builders.h"
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

namespace sextant::acceptance_norm_test {
namespace {

using Values = std::vector<double>;

// A graph of one norm: x, and gamma and beta of n elements.
struct NormGraph {
  LogicalGraph graph{builtin_operators()};
  TensorValues values;
  TensorId x;
  NormParameters parameters;

  NormGraph(Shape shape, Values x_values, Values gamma, Values beta, double epsilon) {
    const auto n = static_cast<std::int64_t>(gamma.size());
    x = add_input(graph, "x", 0, {std::move(shape), DType::kF64});
    parameters = {.gamma = add_input(graph, "gamma", 0, {{n}, DType::kF64}),
                  .beta = add_input(graph, "beta", 0, {{n}, DType::kF64}),
                  .epsilon = epsilon};
    values = {{x, std::move(x_values)},
              {parameters.gamma, std::move(gamma)},
              {parameters.beta, std::move(beta)}};
  }
};

// Given to six digits.
Values random_numbers(std::size_t count, std::int64_t first, std::int64_t last, Random& random) {
  Values values(count);
  for (double& value : values) value = static_cast<double>(random.integer(first, last));
  return values;
}

TEST_CASE("G20: a norm over a split dim has the statistics of the whole dim") {
  NormGraph layer({4}, {1, 2, 3, 4}, {1, 1, 1, 1}, {0, 0, 0, 0}, 0.0);
  const TensorId y = layer_norm_in_pieces(layer.graph, layer.x, layer.parameters, "norm", 0);
  check_six_digits(check_all_splits(layer.graph, layer.values).at(y),
                   {-1.341641, -0.447214, 0.447214, 1.341641});
  NormGraph rms({4}, {3, 4, 0, 0}, {1, 1, 1, 1}, {0, 0, 0, 0}, 0.0);
  const TensorId z = rms_norm_in_pieces(rms.graph, rms.x, rms.parameters, "norm", 0);
  check_six_digits(check_all_splits(rms.graph, rms.values).at(z), {1.2, 1.6, 0, 0});
}

TEST_CASE("G33: a whole norm weight beside a split sequence gets a partial gradient") {
  // Two positions on a device each. Rows of ones have a root mean square of 1, so that the gradient
  // of gamma is the sum over positions of the output's.
  const TensorType rows{{1, 2, 2}, DType::kF64};
  const std::vector<Piece> inputs = {
      whole(rows, {1, 1, 1, 1}), whole({{1, 2}, DType::kF64}, {1, 1}), whole(rows, {1, 2, 3, 4})};
  const TensorType weight{{2}, DType::kF64};
  Values sum = {0, 0};
  for (std::int64_t device = 0; device < 2; ++device) {
    std::vector<Piece> parts;
    for (const Piece& input : inputs) {
      Shard box = input.box;
      box.dims[1] = {device, 1};
      parts.push_back(cut(input, box));
    }
    std::vector<Piece> gradient = {blank(weight)};
    run_operator("rms_norm_grad_weight", {}, parts, gradient);
    CHECK(gradient[0].values == (device == 0 ? Values{1, 2} : Values{3, 4}));
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += gradient[0].values[i];
  }
  CHECK(sum == Values{4, 6});
  const auto rows_of = builtin_operators().get("rms_norm_grad_weight");
  std::vector<TensorType> types;
  for (const Piece& input : inputs) types.push_back(input.global);
  const auto claimed = rows_of.signatures(types, {&weight, 1}, {});
  const SbpSignature split{{Sbp::split(1), Sbp::split(1), Sbp::split(1)}, {Sbp::partial()}};
  CHECK(std::count(claimed.begin(), claimed.end(), split) == 1);
}

TEST_CASE("norms of rows of any length do not depend on the split, and equal the fused ones") {
  Random random("rows");
  for (const std::int64_t n : {1, 2, 3, 7, 13}) {
    const auto columns = static_cast<std::size_t>(n);
    NormGraph norm({2, 3, n}, random_numbers(6 * columns, -9, 9, random),
                   random_numbers(columns, 1, 3, random), random_numbers(columns, -2, 2, random),
                   0.5);
    const auto [gamma, beta, epsilon] = norm.parameters;
    const TensorId layer = layer_norm_in_pieces(norm.graph, norm.x, norm.parameters, "a", 0);
    const TensorId rms = rms_norm_in_pieces(norm.graph, norm.x, norm.parameters, "b", 0);
    const TensorValues values = check_all_splits(norm.graph, norm.values);
    const auto fused = [&](const std::string& kind, const std::vector<TensorId>& operands) {
      std::vector<Piece> inputs, outputs;
      std::vector<TensorType> types;
      for (const TensorId operand : operands) {
        inputs.push_back(whole(norm.graph.tensor(operand).type, norm.values.at(operand)));
        types.push_back(inputs.back().global);
      }
      const Attributes attributes = {{"epsilon", epsilon}};
      for (const TensorType& type : builtin_operators().get(kind).infer(types, attributes))
        outputs.push_back(blank(type));
      run_operator(kind, attributes, inputs, outputs);
      return outputs[0];
    };
    const Piece whole_layer = fused("layer_norm", {norm.x, gamma, beta});
    CHECK(agree(whole(whole_layer.global, values.at(layer)), whole_layer));
    const Piece whole_rms = fused("rms_norm", {norm.x, gamma});
    CHECK(agree(whole(whole_rms.global, values.at(rms)), whole_rms));
  }
}

// The second row of each and channel 1 are constant: they become beta by every split, while what is
// not a number stays none.
TEST_CASE("constant rows without epsilon become beta in norms of pieces") {
  const double nan = std::nan("");
  NormGraph norm({3, 2}, {1, 3, 2, 2, nan, 0}, {1, 2}, {5, 7}, 0.0);
  const TensorId layer = layer_norm_in_pieces(norm.graph, norm.x, norm.parameters, "a", 0);
  // Mean 2, variance 1: (1 - 2) 1 + 5 and (3 - 2) 2 + 7.
  const Values rows = check_all_splits(norm.graph, norm.values).at(layer);
  check_six_digits({rows[0], rows[1], rows[2], rows[3]}, {4, 9, 5, 7});
  CHECK(std::isnan(rows[4]));
  NormGraph zeros({2, 2}, {0, 0, 3, 4}, {1, 2}, {0, 0}, 0.0);
  const TensorId rms = rms_norm_in_pieces(zeros.graph, zeros.x, zeros.parameters, "b", 0);
  // Root mean square sqrt(25 / 2).
  check_six_digits(check_all_splits(zeros.graph, zeros.values).at(rms),
                   {0, 0, 3 / std::sqrt(12.5), 8 / std::sqrt(12.5)});
  NormGraph channels({2, 2}, {0, 4, 2, 4}, {1, 2}, {5, 7}, 0.0);
  const BatchNorm batch = batch_norm(channels.graph, channels.x, channels.parameters, "c", 0);
  check_six_digits(check_all_splits(channels.graph, channels.values).at(batch.y), {4, 7, 6, 7});
}

TEST_CASE("G22: batch norm combines unequal local batches by their counts") {
  // Channel values 0, 2 on one of two ranks and 10 on the other; 3 parts hold one value each, 4
  // leave one without.
  NormGraph norm({3, 1}, {0, 2, 10}, {1}, {0}, 0.0);
  const BatchNorm batch = batch_norm(norm.graph, norm.x, norm.parameters, "norm", 0);
  const TensorValues values = check_all_splits(norm.graph, norm.values);
  CHECK(values.at(batch.mean) == Values{4});
  CHECK(values.at(batch.variance)[0] == doctest::Approx(28).epsilon(1e-15));
  const TensorId biased = norm.graph.output(*norm.graph.find_op("norm.variance"));
  CHECK(std::abs(values.at(biased)[0] - 18.666667) < 5e-7);
  // (x - 4) / sqrt(56 / 3)
  const double rstd = std::sqrt(3.0 / 56.0);
  check_six_digits(values.at(batch.y), {-4 * rstd, -2 * rstd, 6 * rstd});
}

TEST_CASE("batch norm over batch and space is the obvious one, by every split") {
  Random random("batches");
  for (const Shape& shape : {Shape{2, 3}, Shape{5, 2, 3}, Shape{3, 3, 2, 2}, Shape{1, 2, 2}}) {
    const std::int64_t channels = shape[1], space = shape.elements() / shape[0] / channels;
    const auto count = static_cast<std::size_t>(shape.elements());
    const auto c = static_cast<std::size_t>(channels);
    NormGraph norm(shape, random_numbers(count, -9, 9, random), random_numbers(c, 1, 3, random),
                   random_numbers(c, -2, 2, random), 0.5);
    const BatchNorm batch = batch_norm(norm.graph, norm.x, norm.parameters, "norm", 0);
    const TensorValues values = check_all_splits(norm.graph, norm.values);
    const Values& x = norm.values.at(norm.x);
    const auto channel_of = [&](std::size_t i) {
      return i / static_cast<std::size_t>(space) % static_cast<std::size_t>(channels);
    };
    const double per_channel = static_cast<double>(count) / static_cast<double>(channels);
    Values mean(c), squares(c);
    for (std::size_t i = 0; i < count; ++i) mean[channel_of(i)] += x[i] / per_channel;
    for (std::size_t i = 0; i < count; ++i)
      squares[channel_of(i)] += (x[i] - mean[channel_of(i)]) * (x[i] - mean[channel_of(i)]);
    for (std::size_t channel = 0; channel < c; ++channel) {
      CHECK(values.at(batch.mean)[channel] == doctest::Approx(mean[channel]).epsilon(1e-13));
      CHECK(values.at(batch.variance)[channel] ==
            doctest::Approx(squares[channel] / (per_channel - 1)).epsilon(1e-13));
    }
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t channel = channel_of(i);
      const double rstd = 1 / std::sqrt(squares[channel] / per_channel + 0.5);
      const double wanted =
          (x[i] - mean[channel]) * rstd * norm.values.at(norm.parameters.gamma)[channel] +
          norm.values.at(norm.parameters.beta)[channel];
      CHECK(std::abs(values.at(batch.y)[i] - wanted) < 1e-12);
    }
  }
}

TEST_CASE("batch norm refuses one value per channel in the whole batch") {
  NormGraph norm({1, 3}, {1, 2, 3}, {1, 1, 1}, {0, 0, 0}, 0.0);
  CHECK_THROWS_WITH_AS(batch_norm(norm.graph, norm.x, norm.parameters, "norm", 0),
                       "norm: x is 1x3 f64, which has 1 values per channel, wanted at least 2",
                       Error);
}

TEST_CASE(
    "given statistics normalise as in training, and a running average moves towards the batch") {
  // Mean 4, variance 9: rstd 1/3; y = (x - 4) / 3 * 6 + 1.
  NormGraph norm({3, 1}, {1, 4, 10}, {6}, {1}, 0.0);
  const TensorId mean = add_input(norm.graph, "mean", 0, {{1}, DType::kF64});
  const TensorId variance = add_input(norm.graph, "variance", 0, {{1}, DType::kF64});
  const TensorId y =
      batch_norm_given(norm.graph, norm.x, mean, variance, norm.parameters, "norm", 0);
  const BatchNorm batch = batch_norm(norm.graph, norm.x, norm.parameters, "batch", 0);
  // Batch 1, 4, 10: mean 5, unbiased variance (16 + 1 + 25) / 2 = 21.
  const TensorId next_mean = running_average(norm.graph, mean, batch.mean, 0.25, "next_mean", 0);
  const TensorId next_variance =
      running_average(norm.graph, variance, batch.variance, 0.25, "next_variance", 0);
  norm.values[mean] = {4};
  norm.values[variance] = {9};
  const TensorValues values = check_all_splits(norm.graph, norm.values);
  check_six_digits(values.at(y), {-5, 1, 13});
  CHECK(values.at(next_mean)[0] == doctest::Approx(4.25).epsilon(1e-15));
  CHECK(values.at(next_variance)[0] == doctest::Approx(12).epsilon(1e-15));
}

}  // namespace
}  // namespace sextant::acceptance_norm_test
