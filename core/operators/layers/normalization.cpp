// Layer norm and RMS norm over the last dim, and their gradients. Statistics are outputs, because
// the gradients read them. d: a leading dim; a split of the last dim is not claimed for y and dx:
// local statistics would be wrong, boxing gathers instead, or norm_pieces.cpp does without.
//
// | kind | words in | words out | |
// |---|---|---|---|
// | layer_norm, rms_norm | S(d), weights B | S(d) for y and the statistics | |
// | *_grad_input | S(d), gamma B | S(d) | |
// |  | all B, dy P(sum) | P(sum) | linear in dy |
// | *_grad_weight | S(d) | P(sum) | sum over the leading dims |
// |  | x and dy S(last), statistics B | S(0) | each column by itself |
// |  | all B, dy P(sum) | P(sum) | linear in dy |
//
// And all B everywhere.
#include "core/base/check.h"
#include "core/graphs/logical_graph.h"
#include "core/graphs/operator.h"
#include "core/operators/families.h"
#include "core/operators/rules.h"

#include <cmath>
#include <utility>

namespace sextant {
namespace {

TensorType statistics_type(const TensorType& x) {
  return {.shape = leading_dims(x.shape), .dtype = accumulator_type(x.dtype)};
}

void require_normalised(std::string_view kind, const TensorType& x) {
  require_floating(kind, "x", x);
  require_min_rank(kind, "x", x, 1);
}

void require_weight(std::string_view kind, std::string_view operand, const TensorType& weight,
                    const TensorType& x) {
  require_type(kind, operand, weight, {.shape = trailing_dims(x.shape, 1), .dtype = x.dtype});
}

// Rows of the forward and grad_input kinds: S(d) for every operand but the weights, which come
// at the positions `weights`.
Rows leading_split_rows(const TensorType& x, std::size_t num_inputs, std::size_t num_outputs,
                        std::initializer_list<std::size_t> weights) {
  Rows rows{all_broadcast(num_inputs, num_outputs)};
  for (std::size_t dim = 0; dim + 1 < x.shape.rank(); ++dim) {
    SbpSignature row{std::vector<Sbp>(num_inputs, Sbp::split(dim)),
                     std::vector<Sbp>(num_outputs, Sbp::split(dim))};
    for (const std::size_t weight : weights) row.inputs[weight] = kBroadcast;
    rows.push_back(std::move(row));
  }
  return rows;
}

// All B but the last input, dy, which is partial.
SbpSignature linear_in_dy(std::size_t num_inputs, std::size_t num_outputs) {
  SbpSignature row = all_broadcast(num_inputs, num_outputs);
  row.inputs.back() = kPartialSum;
  row.outputs.assign(num_outputs, kPartialSum);
  return row;
}

// Inputs x, statistics ..., dy; outputs one weight gradient each.
Rows weight_gradient_rows(const TensorType& x, std::size_t num_inputs, std::size_t num_outputs) {
  const std::size_t last = x.shape.rank() - 1;
  Rows rows{all_broadcast(num_inputs, num_outputs)};
  for (std::size_t dim = 0; dim < last; ++dim) {
    rows.push_back({std::vector<Sbp>(num_inputs, Sbp::split(dim)),
                    std::vector<Sbp>(num_outputs, kPartialSum)});
  }
  SbpSignature by_column = all_broadcast(num_inputs, num_outputs);
  by_column.inputs.front() = by_column.inputs.back() = Sbp::split(last);
  by_column.outputs.assign(num_outputs, Sbp::split(0));
  rows.push_back(std::move(by_column));
  rows.push_back(linear_in_dy(num_inputs, num_outputs));
  return rows;
}

TensorType weight_gradient_type(const TensorType& x) {
  return {.shape = trailing_dims(x.shape, 1), .dtype = accumulator_type(x.dtype)};
}

// The statistics are for the gradient rule alone.
void refuse_gradient_of_statistics(const GradientContext& context) {
  for (std::size_t output = 1; output < context.op().outputs.size(); ++output) {
    require(!context.output_gradient(output), ErrorCode::kBadInput,
            "operator '{}': no gradient rule for the statistics of {}", context.op().name,
            context.op().kind);
  }
}

void require_epsilon(const Attributes& attributes) {
  const double epsilon = attributes.real("epsilon");
  require(std::isfinite(epsilon) && epsilon >= 0, ErrorCode::kBadInput,
          "epsilon {}: what is added to a variance is finite and not negative", epsilon);
}

// Layer norm

std::vector<TensorType> infer_layer_norm(Types inputs, const Attributes& attributes) {
  const TensorType& x = inputs[0];
  require_epsilon(attributes);
  require_normalised("layer_norm", x);
  require_weight("layer_norm", "gamma", inputs[1], x);
  require_weight("layer_norm", "beta", inputs[2], x);
  return {x, statistics_type(x), statistics_type(x)};
}

Rows layer_norm_rows(Types inputs, Types, const Attributes&) {
  return leading_split_rows(inputs[0], 3, 3, {1, 2});
}

void layer_norm_gradient(GradientContext& context) {
  refuse_gradient_of_statistics(context);
  const TensorId x = context.input(0), gamma = context.input(1), dy = *context.output_gradient(0);
  const TensorId mean = context.output(1), rstd = context.output(2);
  if (context.wants(0)) {
    context.set_input_gradient(
        0, context.add("layer_norm_grad_input", {x, gamma, mean, rstd, dy}, {}, 0));
  }
  if (!context.wants(1) && !context.wants(2)) return;
  context.add("layer_norm_grad_weight", {x, mean, rstd, dy}, {}, context.wants(1) ? 1 : 2);
  const std::vector<TensorId> gradients = context.outputs_of_last();
  for (std::size_t weight : {1, 2})
    if (context.wants(weight)) context.set_input_gradient(weight, gradients[weight - 1]);
}

std::vector<TensorType> infer_layer_norm_grad_input(Types inputs, const Attributes&) {
  constexpr std::string_view kind = "layer_norm_grad_input";
  const TensorType& x = inputs[0];
  require_normalised(kind, x);
  require_weight(kind, "gamma", inputs[1], x);
  require_type(kind, "mean", inputs[2], statistics_type(x));
  require_type(kind, "rstd", inputs[3], statistics_type(x));
  require_type(kind, "dy", inputs[4], x);
  return {x};
}

Rows layer_norm_grad_input_rows(Types inputs, Types, const Attributes&) {
  Rows rows = leading_split_rows(inputs[0], 5, 1, {1});
  rows.push_back(linear_in_dy(5, 1));
  return rows;
}

std::vector<TensorType> infer_layer_norm_grad_weight(Types inputs, const Attributes&) {
  constexpr std::string_view kind = "layer_norm_grad_weight";
  const TensorType& x = inputs[0];
  require_normalised(kind, x);
  require_type(kind, "mean", inputs[1], statistics_type(x));
  require_type(kind, "rstd", inputs[2], statistics_type(x));
  require_type(kind, "dy", inputs[3], x);
  return {weight_gradient_type(x), weight_gradient_type(x)};
}

Rows layer_norm_grad_weight_rows(Types inputs, Types, const Attributes&) {
  return weight_gradient_rows(inputs[0], 4, 2);
}

// RMS norm

std::vector<TensorType> infer_rms_norm(Types inputs, const Attributes& attributes) {
  const TensorType& x = inputs[0];
  require_epsilon(attributes);
  require_normalised("rms_norm", x);
  require_weight("rms_norm", "gamma", inputs[1], x);
  return {x, statistics_type(x)};
}

Rows rms_norm_rows(Types inputs, Types, const Attributes&) {
  return leading_split_rows(inputs[0], 2, 2, {1});
}

void rms_norm_gradient(GradientContext& context) {
  refuse_gradient_of_statistics(context);
  const TensorId x = context.input(0), gamma = context.input(1), dy = *context.output_gradient(0);
  const TensorId rstd = context.output(1);
  if (context.wants(0))
    context.set_input_gradient(0, context.add("rms_norm_grad_input", {x, gamma, rstd, dy}, {}, 0));
  if (context.wants(1))
    context.set_input_gradient(1, context.add("rms_norm_grad_weight", {x, rstd, dy}, {}, 1));
}

std::vector<TensorType> infer_rms_norm_grad_input(Types inputs, const Attributes&) {
  constexpr std::string_view kind = "rms_norm_grad_input";
  const TensorType& x = inputs[0];
  require_normalised(kind, x);
  require_weight(kind, "gamma", inputs[1], x);
  require_type(kind, "rstd", inputs[2], statistics_type(x));
  require_type(kind, "dy", inputs[3], x);
  return {x};
}

Rows rms_norm_grad_input_rows(Types inputs, Types, const Attributes&) {
  Rows rows = leading_split_rows(inputs[0], 4, 1, {1});
  rows.push_back(linear_in_dy(4, 1));
  return rows;
}

std::vector<TensorType> infer_rms_norm_grad_weight(Types inputs, const Attributes&) {
  constexpr std::string_view kind = "rms_norm_grad_weight";
  const TensorType& x = inputs[0];
  require_normalised(kind, x);
  require_type(kind, "rstd", inputs[1], statistics_type(x));
  require_type(kind, "dy", inputs[2], x);
  return {weight_gradient_type(x)};
}

Rows rms_norm_grad_weight_rows(Types inputs, Types, const Attributes&) {
  return weight_gradient_rows(inputs[0], 3, 1);
}

std::vector<OperatorExample> layer_norm_examples() {
  return {{.inputs = {f64({2, 5, 4}), f64({4}), f64({4})}, .attributes = {{"epsilon", 1e-2}}},
          {.inputs = {f64({3}), f64({3}), f64({3})}, .attributes = {{"epsilon", 1e-2}}}};
}

std::vector<OperatorExample> rms_norm_examples() {
  return {{.inputs = {f64({2, 5, 4}), f64({4})}, .attributes = {{"epsilon", 1e-2}}},
          {.inputs = {f64({3}), f64({3})}, .attributes = {{"epsilon", 1e-2}}}};
}

// Types of the examples of gradient kinds: x, a statistic, a weight.
TensorType matrix() { return f64({2, 5, 4}); }
TensorType rows() { return f64({2, 5}); }
TensorType columns() { return f64({4}); }

}  // namespace

void add_normalization(OperatorRegistry& registry) {
  registry.add({.kind = "layer_norm",
                .min_inputs = 3,
                .max_inputs = 3,
                .attributes = {{"epsilon", kReal}},
                .infer = infer_layer_norm,
                .work = row_normalization_pass<7>,
                .signatures = layer_norm_rows,
                .gradient = layer_norm_gradient,
                .examples = layer_norm_examples});
  registry.add({.kind = "layer_norm_grad_input",
                .min_inputs = 5,
                .max_inputs = 5,
                .infer = infer_layer_norm_grad_input,
                .work = row_normalization_pass<11>,
                .signatures = layer_norm_grad_input_rows,
                .examples = [] {
                  return std::vector<OperatorExample>{
                      {.inputs = {matrix(), columns(), rows(), rows(), matrix()}}};
                }});
  registry.add(
      {.kind = "layer_norm_grad_weight",
       .min_inputs = 4,
       .max_inputs = 4,
       .infer = infer_layer_norm_grad_weight,
       .work = row_normalization_pass<5, true>,
       .signatures = layer_norm_grad_weight_rows,
       .examples = [] {
         return std::vector<OperatorExample>{{.inputs = {matrix(), rows(), rows(), matrix()}}};
       }});
  registry.add({.kind = "rms_norm",
                .min_inputs = 2,
                .max_inputs = 2,
                .attributes = {{"epsilon", kReal}},
                .infer = infer_rms_norm,
                .work = row_normalization_pass<4>,
                .signatures = rms_norm_rows,
                .gradient = rms_norm_gradient,
                .examples = rms_norm_examples});
  registry.add(
      {.kind = "rms_norm_grad_input",
       .min_inputs = 4,
       .max_inputs = 4,
       .infer = infer_rms_norm_grad_input,
       .work = row_normalization_pass<8>,
       .signatures = rms_norm_grad_input_rows,
       .examples = [] {
         return std::vector<OperatorExample>{{.inputs = {matrix(), columns(), rows(), matrix()}}};
       }});
  registry.add({.kind = "rms_norm_grad_weight",
                .min_inputs = 3,
                .max_inputs = 3,
                .infer = infer_rms_norm_grad_weight,
                .work = row_normalization_pass<3, true>,
                .signatures = rms_norm_grad_weight_rows,
                .examples = [] {
                  return std::vector<OperatorExample>{{.inputs = {matrix(), rows(), matrix()}}};
                }});
}

}  // namespace sextant
