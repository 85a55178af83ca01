// Activation functions and their slopes.
//
// | kind | S(d) | P(sum) | P(max), P(min) |
// |---|---|---|---|
// | relu, tanh, sigmoid | x | not linear | x: increasing |
// | gelu, silu | x | not linear | not monotone |
// | relu_grad, tanh_grad, sigmoid_grad | both | in dy, y B | in dy, y B: no slope is negative |
// | gelu_grad, silu_grad | both | in dy, x B | |
#include "core/base/check.h"
#include "core/graphs/logical_graph.h"
#include "core/graphs/operator.h"
#include "core/operators/families.h"
#include "core/operators/pointwise/elementwise.h"

namespace sextant {
namespace {

using Examples = std::vector<OperatorExample>;

// dx = <kind>_grad(x or y, dy).
void set_slope_gradient(GradientContext& context, TensorId from) {
  const TensorId dy = *context.output_gradient(0);
  context.set_input_gradient(
      0, context.add(context.op().kind + "_grad", {in_type_of(context, dy, from, 0), dy},
                     context.op().attributes, 0));
}

void gradient_from_input(GradientContext& context) {
  set_slope_gradient(context, context.input(0));
}

void gradient_from_output(GradientContext& context) {
  set_slope_gradient(context, context.output(0));
}

void require_form(std::string_view kind, const Attributes& attributes) {
  const std::string& approximate = attributes.text("approximate");
  require(approximate == "tanh" || approximate == "none", ErrorCode::kBadInput,
          "{}: approximate is '{}', wanted tanh or none", kind, approximate);
}

std::vector<TensorType> infer_gelu(Types inputs, const Attributes& attributes) {
  require_form("gelu", attributes);
  return infer_floating("gelu", inputs);
}

std::vector<TensorType> infer_gelu_grad(Types inputs, const Attributes& attributes) {
  require_form("gelu_grad", attributes);
  return infer_slope("gelu_grad", "x", inputs);
}

// Uneven over 2, 3 and 4 parts, with an empty shard over 3 and 4.

Examples unary_examples() { return {{.inputs = {f64({5, 2})}}, {.inputs = {f64({2, 3, 4})}}}; }

Examples relu_examples() {
  Examples examples = unary_examples();
  examples.push_back({.inputs = {i32({5, 2})}});
  return examples;
}

Examples binary_examples() {
  return {{.inputs = {f64({5, 2}), f64({5, 2})}}, {.inputs = {f64({3, 4}), f64({3, 4})}}};
}

// y within the range of its function.
template <int kFirst>
Examples slope_examples() {
  Examples examples = binary_examples();
  for (OperatorExample& example : examples) example.ranges = {{kFirst, 1}, {-3, 3}};
  return examples;
}

Examples gelu_examples() {
  return {{.inputs = {f64({5, 2})}, .attributes = {{"approximate", "tanh"}}},
          {.inputs = {f64({5, 2})}, .attributes = {{"approximate", "none"}}}};
}

Examples gelu_grad_examples() {
  return {{.inputs = {f64({5, 2}), f64({5, 2})}, .attributes = {{"approximate", "tanh"}}},
          {.inputs = {f64({5, 2}), f64({5, 2})}, .attributes = {{"approximate", "none"}}}};
}

void add_increasing_functions(OperatorRegistry& registry) {
  registry.add(
      {.kind = "relu",
       .infer = [](Types inputs, const Attributes&) { return infer_number("relu", inputs); },
       .work = elementwise_pass<1>,
       .signatures = property_rows<kIncreasing>,
       .gradient = gradient_from_output,
       .examples = relu_examples});
  registry.add(
      {.kind = "tanh",
       .infer = [](Types inputs, const Attributes&) { return infer_floating("tanh", inputs); },
       .work = elementwise_pass<4>,
       .signatures = property_rows<kIncreasing>,
       .gradient = gradient_from_output,
       .examples = unary_examples});
  registry.add(
      {.kind = "sigmoid",
       .infer = [](Types inputs, const Attributes&) { return infer_floating("sigmoid", inputs); },
       .work = elementwise_pass<3>,
       .signatures = property_rows<kIncreasing>,
       .gradient = gradient_from_output,
       .examples = unary_examples});
}

void add_slopes_of_increasing_functions(OperatorRegistry& registry) {
  registry.add({.kind = "relu_grad",
                .min_inputs = 2,
                .max_inputs = 2,
                .infer = [](Types inputs,
                            const Attributes&) { return infer_slope("relu_grad", "y", inputs); },
                .work = elementwise_pass<1>,
                .signatures = slope_rows<true>,
                .examples = binary_examples});
  registry.add({.kind = "tanh_grad",
                .min_inputs = 2,
                .max_inputs = 2,
                .infer = [](Types inputs,
                            const Attributes&) { return infer_slope("tanh_grad", "y", inputs); },
                .work = elementwise_pass<3>,
                .signatures = slope_rows<false>,
                .examples = slope_examples<-1>});
  registry.add({.kind = "sigmoid_grad",
                .min_inputs = 2,
                .max_inputs = 2,
                .infer = [](Types inputs,
                            const Attributes&) { return infer_slope("sigmoid_grad", "y", inputs); },
                .work = elementwise_pass<3>,
                .signatures = slope_rows<false>,
                .examples = slope_examples<0>});
}

void add_gated_functions(OperatorRegistry& registry) {
  registry.add({.kind = "gelu",
                .attributes = {{"approximate", kText}},
                .infer = infer_gelu,
                .work = elementwise_pass<10>,
                .signatures = property_rows<kNone>,
                .gradient = gradient_from_input,
                .examples = gelu_examples});
  registry.add({.kind = "gelu_grad",
                .min_inputs = 2,
                .max_inputs = 2,
                .attributes = {{"approximate", kText}},
                .infer = infer_gelu_grad,
                .work = elementwise_pass<18>,
                .signatures = slope_rows<false>,
                .examples = gelu_grad_examples});
  registry.add(
      {.kind = "silu",
       .infer = [](Types inputs, const Attributes&) { return infer_floating("silu", inputs); },
       .work = elementwise_pass<4>,
       .signatures = property_rows<kNone>,
       .gradient = gradient_from_input,
       .examples = unary_examples});
  registry.add({.kind = "silu_grad",
                .min_inputs = 2,
                .max_inputs = 2,
                .infer = [](Types inputs,
                            const Attributes&) { return infer_slope("silu_grad", "x", inputs); },
                .work = elementwise_pass<8>,
                .signatures = slope_rows<false>,
                .examples = binary_examples});
}

}  // namespace

// FLOPs per element of the curved functions count their polynomial, exponential and division as
// one each per appearance; they are bound by memory anyway.
void add_activation(OperatorRegistry& registry) {
  add_increasing_functions(registry);
  add_slopes_of_increasing_functions(registry);
  add_gated_functions(registry);
}

}  // namespace sextant
