// Functions of one tensor: every split of every dim, and partial values by what the function is.
//
// | kind | P(sum) | P(max), P(min) |
// |---|---|---|
// | neg | stays; not of integers, which end at the limits of their type | swap: decreasing |
// | scale | stays | stay; a negative factor swaps them, 0 takes neither (0 times -infinity) |
// | add_scalar | would add the constant p times | stay |
// | exp, sign, floor, round, clamp | not linear | stay: increasing |
// | abs, square, reciprocal | not linear | not monotone |
// | sqrt, log | not linear | P(min) stays |
// | rsqrt | not linear | P(min) becomes P(max) |
// | pow | only exponent 1 | positive odd: stay; fractions: as sqrt, negative ones as rsqrt |
// | clamp_grad | in dy, x B | in dy, x B: all of dy or nothing |
//
// sqrt, log, rsqrt and pow with a fraction are defined for x >= 0. There the parts of a minimum are
// at least the minimum, so all are in the domain; the parts of a maximum may lie below it and give
// NaN, as its neutral element -infinity does.
#include "core/base/check.h"
#include "core/graphs/logical_graph.h"
#include "core/graphs/operator.h"
#include "core/operators/families.h"
#include "core/operators/pointwise/elementwise.h"

#include <cmath>
#include <limits>

namespace sextant {
namespace {

Rows scale_rows(Types inputs, Types, const Attributes& attributes) {
  const double factor = attributes.real("factor");
  return rows_with(inputs, kLinear | (factor > 0 ? kIncreasing : factor < 0 ? kDecreasing : kNone));
}

Rows pow_rows(Types inputs, Types, const Attributes& attributes) {
  const double exponent = attributes.real("exponent");
  if (std::trunc(exponent) != exponent)
    return rows_with(inputs, exponent > 0 ? kIncreasingAboveZero : kDecreasingAboveZero);
  const bool is_odd = std::fmod(exponent, 2.0) != 0.0;
  unsigned properties = is_odd && exponent > 0 ? kIncreasing : kNone;
  if (exponent == 1.0) properties |= kLinear;
  return rows_with(inputs, properties);
}

// Gradients. dx = dy f'(x), with f' from x or from y = f(x), whichever is cheaper.

void set_scaled(GradientContext& context, TensorId gradient, double factor) {
  context.set_input_gradient(0, context.add("scale", {gradient}, {{"factor", factor}}, 0));
}

// dx = factor * dy * other.
void set_product(GradientContext& context, TensorId other, double factor = 1.0) {
  const TensorId product = times(context, dy(context), other, 0);
  if (factor == 1.0) return context.set_input_gradient(0, product);
  set_scaled(context, product, factor);
}

void pass_gradient(GradientContext& context) { context.set_input_gradient(0, dy(context)); }

void neg_gradient(GradientContext& context) {
  context.set_input_gradient(0, context.add("neg", {dy(context)}, {}, 0));
}

void scale_gradient(GradientContext& context) {
  set_scaled(context, dy(context), context.op().attributes.real("factor"));
}

void abs_gradient(GradientContext& context) {
  set_product(context, context.add("sign", {context.input(0)}, {}, 0));
}

void exp_gradient(GradientContext& context) { set_product(context, context.output(0)); }

void log_gradient(GradientContext& context) {
  const TensorId x = in_type_of(context, dy(context), context.input(0), 0);
  context.set_input_gradient(0, context.add("div", {dy(context), x}, {}, 0));
}

// 1 / (2 y)
void sqrt_gradient(GradientContext& context) {
  const TensorId y = in_type_of(context, dy(context), context.output(0), 0);
  set_scaled(context, context.add("div", {dy(context), y}, {}, 0), 0.5);
}

// -y^3 / 2
void rsqrt_gradient(GradientContext& context) {
  set_product(context, context.add("pow", {context.output(0)}, {{"exponent", 3.0}}, 0), -0.5);
}

void square_gradient(GradientContext& context) { set_product(context, context.input(0), 2.0); }

// -y^2
void reciprocal_gradient(GradientContext& context) {
  set_product(context, context.add("square", {context.output(0)}, {}, 0), -1.0);
}

// e x^(e - 1); without a power where there is none, so that x = 0 gives 0 and not 0 infinity.
void pow_gradient(GradientContext& context) {
  const double exponent = context.op().attributes.real("exponent");
  if (exponent == 0.0) return;
  if (exponent == 1.0) return pass_gradient(context);
  set_product(context, context.add("pow", {context.input(0)}, {{"exponent", exponent - 1.0}}, 0),
              exponent);
}

void clamp_gradient(GradientContext& context) {
  const TensorId x = in_type_of(context, dy(context), context.input(0), 0);
  context.set_input_gradient(
      0, context.add("clamp_grad", {x, dy(context)}, context.op().attributes, 0));
}

// Steps have slope 0 wherever they have one: no gradient passes.
void no_slope(GradientContext&) {}

// Attributes.

void require_integral(std::string_view kind, std::string_view attribute, double value,
                      const TensorType& x) {
  require(is_floating(x.dtype) || std::trunc(value) == value, ErrorCode::kBadInput,
          "{}: {} {} for x that is {}, wanted an integer", kind, attribute, value, to_text(x));
}

std::vector<TensorType> infer_add_scalar(Types inputs, const Attributes& attributes) {
  require_integral("add_scalar", "value", attributes.real("value"), inputs[0]);
  return infer_number("add_scalar", inputs);
}

std::vector<TensorType> infer_pow(Types inputs, const Attributes& attributes) {
  require(std::isfinite(attributes.real("exponent")), ErrorCode::kBadInput,
          "pow: exponent {} is not finite", attributes.real("exponent"));
  return infer_floating("pow", inputs);
}

std::vector<TensorType> infer_scale(Types inputs, const Attributes& attributes) {
  attributes.real("factor");
  return infer_floating("scale", inputs);
}

void require_bounds(std::string_view kind, const TensorType& x, const Attributes& attributes) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const double min = attributes.real_or("min", -kInfinity);
  const double max = attributes.real_or("max", kInfinity);
  require(min <= max, ErrorCode::kBadInput, "{}: min {} is not at most max {}", kind, min, max);
  require_integral(kind, "min", min, x);
  require_integral(kind, "max", max, x);
}

std::vector<TensorType> infer_clamp(Types inputs, const Attributes& attributes) {
  require_bounds("clamp", inputs[0], attributes);
  return infer_number("clamp", inputs);
}

std::vector<TensorType> infer_clamp_grad(Types inputs, const Attributes& attributes) {
  require_bounds("clamp_grad", inputs[0], attributes);
  return infer_slope("clamp_grad", "x", inputs);
}

// Examples: uneven over 2, 3 and 4 parts, with an empty shard over 3 and 4.

using Examples = std::vector<OperatorExample>;

Examples examples_with(const Attributes& attributes, bool with_integers) {
  Examples examples = {{.inputs = {f64({5, 2})}, .attributes = attributes},
                       {.inputs = {f64({2, 3, 4})}, .attributes = attributes}};
  if (with_integers) examples.push_back({.inputs = {i32({5, 2})}, .attributes = attributes});
  return examples;
}

Examples floating_examples() { return examples_with({}, false); }
Examples number_examples() { return examples_with({}, true); }

// Where sqrt, log and powers are defined and smooth.
Examples positive_examples() {
  return {{.inputs = {f64({5, 2})}, .ranges = {{1, 5}}},
          {.inputs = {f64({2, 3, 4})}, .ranges = {{1, 5}}}};
}

// Either side of the pole.
Examples reciprocal_examples() {
  return {{.inputs = {f64({5, 2})}, .ranges = {{1, 4}}},
          {.inputs = {f64({5, 2})}, .ranges = {{-4, -1}}}};
}

Examples pow_examples() {
  Examples examples;
  for (const double exponent : {3.0, 2.0, 1.0})
    examples.push_back({.inputs = {f64({5, 2})}, .attributes = {{"exponent", exponent}}});
  for (const double exponent : {-1.0, -2.0, 1.5, -0.5})
    examples.push_back(
        {.inputs = {f64({5, 2})}, .attributes = {{"exponent", exponent}}, .ranges = {{1, 4}}});
  return examples;
}

Examples scale_examples() {
  return {{.inputs = {f64({5, 2})}, .attributes = {{"factor", 2.0}}},
          {.inputs = {f64({5, 2})}, .attributes = {{"factor", -0.5}}}};
}

Examples clamp_grad_examples() {
  return {{.inputs = {f64({5, 2}), f64({5, 2})}, .attributes = {{"min", -1.0}, {"max", 2.0}}},
          {.inputs = {f64({5, 4}), f64({5, 4})}, .attributes = {{"min", 0.5}}}};
}

void add_floating_functions(OperatorRegistry& registry) {
  registry.add(
      {.kind = "exp",
       .infer = [](Types inputs, const Attributes&) { return infer_floating("exp", inputs); },
       .work = elementwise_pass<1>,
       .signatures = property_rows<kIncreasing>,
       .gradient = exp_gradient,
       .examples = floating_examples});
  registry.add(
      {.kind = "log",
       .infer = [](Types inputs, const Attributes&) { return infer_floating("log", inputs); },
       .work = elementwise_pass<1>,
       .signatures = property_rows<kIncreasingAboveZero>,
       .gradient = log_gradient,
       .examples = positive_examples});
  registry.add(
      {.kind = "sqrt",
       .infer = [](Types inputs, const Attributes&) { return infer_floating("sqrt", inputs); },
       .work = elementwise_pass<1>,
       .signatures = property_rows<kIncreasingAboveZero>,
       .gradient = sqrt_gradient,
       .examples = positive_examples});
  registry.add(
      {.kind = "rsqrt",
       .infer = [](Types inputs, const Attributes&) { return infer_floating("rsqrt", inputs); },
       .work = elementwise_pass<2>,
       .signatures = property_rows<kDecreasingAboveZero>,
       .gradient = rsqrt_gradient,
       .examples = positive_examples});
  registry.add({.kind = "reciprocal",
                .infer = [](Types inputs,
                            const Attributes&) { return infer_floating("reciprocal", inputs); },
                .work = elementwise_pass<1>,
                .signatures = property_rows<kNone>,
                .gradient = reciprocal_gradient,
                .examples = reciprocal_examples});
  registry.add({.kind = "pow",
                .attributes = {{"exponent", kReal}},
                .infer = infer_pow,
                .work = elementwise_pass<3>,
                .signatures = pow_rows,
                .gradient = pow_gradient,
                .examples = pow_examples});
}

void add_number_functions(OperatorRegistry& registry) {
  registry.add(
      {.kind = "neg",
       .infer = [](Types inputs, const Attributes&) { return infer_number("neg", inputs); },
       .work = elementwise_pass<1>,
       .signatures = property_rows<kLinear | kDecreasing>,
       .gradient = neg_gradient,
       .examples = number_examples});
  registry.add(
      {.kind = "abs",
       .infer = [](Types inputs, const Attributes&) { return infer_number("abs", inputs); },
       .work = elementwise_pass<1>,
       .signatures = property_rows<kNone>,
       .gradient = abs_gradient,
       .examples = number_examples});
  registry.add(
      {.kind = "square",
       .infer = [](Types inputs, const Attributes&) { return infer_number("square", inputs); },
       .work = elementwise_pass<1>,
       .signatures = property_rows<kNone>,
       .gradient = square_gradient,
       .examples = number_examples});
  registry.add(
      {.kind = "sign",
       .infer = [](Types inputs, const Attributes&) { return infer_number("sign", inputs); },
       .work = elementwise_pass<1>,
       .signatures = property_rows<kIncreasing>,
       .gradient = no_slope,
       .examples = number_examples});
  registry.add({.kind = "scale",
                .attributes = {{"factor", kReal}},
                .infer = infer_scale,
                .work = elementwise_pass<1>,
                .signatures = scale_rows,
                .gradient = scale_gradient,
                .examples = scale_examples});
  registry.add({.kind = "add_scalar",
                .attributes = {{"value", kReal}},
                .infer = infer_add_scalar,
                .work = elementwise_pass<1>,
                .signatures = property_rows<kIncreasing>,
                .gradient = pass_gradient,
                .examples = [] {
                  return examples_with({{"value", 10.0}}, true);
                }});
}

void add_steps_and_bounds(OperatorRegistry& registry) {
  registry.add(
      {.kind = "floor",
       .infer = [](Types inputs, const Attributes&) { return infer_floating("floor", inputs); },
       .work = elementwise_pass<1>,
       .signatures = property_rows<kIncreasing>,
       .gradient = no_slope,
       .examples = floating_examples});
  registry.add(
      {.kind = "round",
       .infer = [](Types inputs, const Attributes&) { return infer_floating("round", inputs); },
       .work = elementwise_pass<1>,
       .signatures = property_rows<kIncreasing>,
       .gradient = no_slope,
       .examples = floating_examples});
  registry.add({.kind = "clamp",
                .attributes = {{"min", kReal, kOptional}, {"max", kReal, kOptional}},
                .infer = infer_clamp,
                .work = elementwise_pass<2>,
                .signatures = property_rows<kIncreasing>,
                .gradient = clamp_gradient,
                .examples = [] {
                  return examples_with({{"min", -1.0}, {"max", 2.0}}, true);
                }});
  registry.add({.kind = "clamp_grad",
                .min_inputs = 2,
                .max_inputs = 2,
                .attributes = {{"min", kReal, kOptional}, {"max", kReal, kOptional}},
                .infer = infer_clamp_grad,
                .work = elementwise_pass<2>,
                .signatures = slope_rows<true>,
                .examples = clamp_grad_examples});
}

}  // namespace

void add_unary(OperatorRegistry& registry) {
  add_number_functions(registry);
  add_floating_functions(registry);
  add_steps_and_bounds(registry);
}

}  // namespace sextant
