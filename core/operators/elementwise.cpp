// Element-wise operators: every split of every dim, and partial values where the operator is linear
// or monotone.
//
// | kind | S(d) | P(sum) | P(max), P(min) |
// |---|---|---|---|
// | add | both | both arguments together; one alone would add the other p times | |
// | mul | both | in one argument, the other B (bilinear) | |
// | scale | x | x | x; a negative factor swaps max and min |
// | cast | x | between floating types | x, except from and to bool |
// | gelu, silu | x | | not monotone |
// | gelu_grad, silu_grad | both | in dy, x B | |
#include "core/check.h"
#include "core/logical_graph.h"
#include "core/operator.h"
#include "core/operators/families.h"
#include "core/operators/rules.h"

namespace sextant {
namespace {

// B, then S(d) of all operands for every dim.
Rows equal_words_rows(const TensorType& type, std::size_t num_inputs) {
  Rows rows{all_broadcast(num_inputs, 1)};
  for (std::size_t dim = 0; dim < type.shape.rank(); ++dim)
    rows.push_back({std::vector<Sbp>(num_inputs, Sbp::split(dim)), {Sbp::split(dim)}});
  return rows;
}

std::vector<TensorType> infer_unary(std::string_view kind, Types inputs) {
  require_floating(kind, "x", inputs[0]);
  return {inputs[0]};
}

std::vector<TensorType> infer_binary(std::string_view kind, Types inputs, std::string_view first,
                                     std::string_view second) {
  require_floating(kind, first, inputs[0]);
  require_type(kind, second, inputs[1], inputs[0]);
  return {inputs[0]};
}

template <int kFlopsPerElement>
Work work(Types inputs, Types outputs, const Attributes&) {
  return elementwise_work(inputs, outputs, kFlopsPerElement);
}

// add

std::vector<TensorType> infer_add(Types inputs, const Attributes&) {
  return infer_binary("add", inputs, "a", "b");
}

Rows add_rows(Types inputs, Types, const Attributes&) {
  Rows rows = equal_words_rows(inputs[0], 2);
  rows.push_back({{kPartialSum, kPartialSum}, {kPartialSum}});
  return rows;
}

void add_gradient(GradientContext& context) {
  const TensorId dy = *context.output_gradient(0);
  for (std::size_t input : {0, 1})
    if (context.wants(input)) context.set_input_gradient(input, dy);
}

// mul

std::vector<TensorType> infer_mul(Types inputs, const Attributes&) {
  return infer_binary("mul", inputs, "a", "b");
}

Rows mul_rows(Types inputs, Types, const Attributes&) {
  Rows rows = equal_words_rows(inputs[0], 2);
  rows.push_back({{kPartialSum, kBroadcast}, {kPartialSum}});
  rows.push_back({{kBroadcast, kPartialSum}, {kPartialSum}});
  return rows;
}

void mul_gradient(GradientContext& context) {
  const TensorId dy = *context.output_gradient(0);
  for (std::size_t input : {0, 1}) {
    if (!context.wants(input)) continue;
    context.set_input_gradient(input,
                               context.add("mul", {dy, context.input(1 - input)}, {}, input));
  }
}

// scale

std::vector<TensorType> infer_scale(Types inputs, const Attributes& attributes) {
  attributes.real("factor");
  return infer_unary("scale", inputs);
}

Rows scale_rows(Types inputs, Types, const Attributes& attributes) {
  const bool keeps_order = attributes.real("factor") >= 0;
  Rows rows = equal_words_rows(inputs[0], 1);
  rows.push_back({{kPartialSum}, {kPartialSum}});
  rows.push_back({{kPartialMax}, {keeps_order ? kPartialMax : kPartialMin}});
  rows.push_back({{kPartialMin}, {keeps_order ? kPartialMin : kPartialMax}});
  return rows;
}

void scale_gradient(GradientContext& context) {
  context.set_input_gradient(
      0, context.add("scale", {*context.output_gradient(0)}, context.op().attributes, 0));
}

// cast

std::vector<TensorType> infer_cast(Types inputs, const Attributes& attributes) {
  return {{.shape = inputs[0].shape, .dtype = parse_dtype(attributes.text("dtype"))}};
}

// A narrowing cast of a partial value is claimed too: it rounds each part as every stored partial
// value is rounded. Where the reduction happens, before or after, is the planner's choice (G15).
Rows cast_rows(Types inputs, Types outputs, const Attributes&) {
  const DType from = inputs[0].dtype, to = outputs[0].dtype;
  Rows rows = equal_words_rows(inputs[0], 1);
  if (is_floating(from) && is_floating(to)) rows.push_back({{kPartialSum}, {kPartialSum}});
  if (from != DType::kBool && to != DType::kBool) {
    rows.push_back({{kPartialMax}, {kPartialMax}});
    rows.push_back({{kPartialMin}, {kPartialMin}});
  }
  return rows;
}

// The gradient of a weight arrives in f32 already (README, invariant 3): nothing to do then.
void cast_gradient(GradientContext& context) {
  TensorId gradient = *context.output_gradient(0);
  const DType wanted = context.graph().tensor(context.input(0)).type.dtype;
  if (context.graph().tensor(gradient).type.dtype != wanted)
    gradient = context.add("cast", {gradient}, {{"dtype", std::string(to_string(wanted))}}, 0);
  context.set_input_gradient(0, gradient);
}

// gelu and silu

std::vector<TensorType> infer_gelu(Types inputs, const Attributes& attributes) {
  const std::string& approximate = attributes.text("approximate");
  require(approximate == "tanh" || approximate == "none", ErrorCode::kBadInput,
          "gelu: approximate is '{}', wanted tanh or none", approximate);
  return infer_unary("gelu", inputs);
}

std::vector<TensorType> infer_silu(Types inputs, const Attributes&) {
  return infer_unary("silu", inputs);
}

std::vector<TensorType> infer_gelu_grad(Types inputs, const Attributes& attributes) {
  infer_gelu(inputs.first(1), attributes);
  return infer_binary("gelu_grad", inputs, "x", "dy");
}

std::vector<TensorType> infer_silu_grad(Types inputs, const Attributes&) {
  return infer_binary("silu_grad", inputs, "x", "dy");
}

Rows activation_rows(Types inputs, Types, const Attributes&) {
  return equal_words_rows(inputs[0], 1);
}

Rows activation_grad_rows(Types inputs, Types, const Attributes&) {
  Rows rows = equal_words_rows(inputs[0], 2);
  rows.push_back({{kBroadcast, kPartialSum}, {kPartialSum}});
  return rows;
}

void activation_gradient(GradientContext& context) {
  context.set_input_gradient(
      0, context.add(context.op().kind + "_grad", {context.input(0), *context.output_gradient(0)},
                     context.op().attributes, 0));
}

// Uneven over 2, 3 and 4 parts, with an empty shard over 3 and 4.
std::vector<OperatorExample> unary_examples() {
  return {{.inputs = {f64({5, 2})}}, {.inputs = {f64({2, 3, 4})}}};
}

std::vector<OperatorExample> binary_examples() {
  return {{.inputs = {f64({5, 2}), f64({5, 2})}}, {.inputs = {f64({3}), f64({3})}}};
}

std::vector<OperatorExample> scale_examples() {
  return {{.inputs = {f64({5, 2})}, .attributes = {{"factor", 2.0}}},
          {.inputs = {f64({5, 2})}, .attributes = {{"factor", -0.5}}}};
}

std::vector<OperatorExample> cast_examples() {
  return {{.inputs = {f64({5, 2})}, .attributes = {{"dtype", "f32"}}},
          {.inputs = {{.shape = {5, 2}, .dtype = DType::kF32}}, .attributes = {{"dtype", "f64"}}},
          {.inputs = {i32({5, 2})}, .attributes = {{"dtype", "f64"}}}};
}

std::vector<OperatorExample> gelu_examples() {
  return {{.inputs = {f64({5, 2})}, .attributes = {{"approximate", "tanh"}}},
          {.inputs = {f64({5, 2})}, .attributes = {{"approximate", "none"}}}};
}

std::vector<OperatorExample> gelu_grad_examples() {
  return {{.inputs = {f64({5, 2}), f64({5, 2})}, .attributes = {{"approximate", "tanh"}}},
          {.inputs = {f64({5, 2}), f64({5, 2})}, .attributes = {{"approximate", "none"}}}};
}

}  // namespace

// FLOPs per element of the curved functions count their polynomial, exponential and division as
// one each per appearance; they are bound by memory anyway.
void add_elementwise(OperatorRegistry& registry) {
  registry.add({.kind = "add",
                .min_inputs = 2,
                .max_inputs = 2,
                .infer = infer_add,
                .work = work<1>,
                .signatures = add_rows,
                .gradient = add_gradient,
                .examples = binary_examples});
  registry.add({.kind = "mul",
                .min_inputs = 2,
                .max_inputs = 2,
                .infer = infer_mul,
                .work = work<1>,
                .signatures = mul_rows,
                .gradient = mul_gradient,
                .examples = binary_examples});
  registry.add({.kind = "scale",
                .infer = infer_scale,
                .work = work<1>,
                .signatures = scale_rows,
                .gradient = scale_gradient,
                .examples = scale_examples});
  registry.add({.kind = "cast",
                .infer = infer_cast,
                .work = work<0>,
                .signatures = cast_rows,
                .gradient = cast_gradient,
                .examples = cast_examples});
  registry.add({.kind = "gelu",
                .infer = infer_gelu,
                .work = work<10>,
                .signatures = activation_rows,
                .gradient = activation_gradient,
                .examples = gelu_examples});
  registry.add({.kind = "gelu_grad",
                .min_inputs = 2,
                .max_inputs = 2,
                .infer = infer_gelu_grad,
                .work = work<18>,
                .signatures = activation_grad_rows,
                .examples = gelu_grad_examples});
  registry.add({.kind = "silu",
                .infer = infer_silu,
                .work = work<4>,
                .signatures = activation_rows,
                .gradient = activation_gradient,
                .examples = unary_examples});
  registry.add({.kind = "silu_grad",
                .min_inputs = 2,
                .max_inputs = 2,
                .infer = infer_silu_grad,
                .work = work<8>,
                .signatures = activation_grad_rows,
                .examples = binary_examples});
}

}  // namespace sextant
