// Maximum and mean over windows of [N, C, spatial ...], and their gradients. Windows have global
// positions, so the kernels need to know their boxes. s: a spatial dim; *aligned*: as in conv.cpp.
//
// | kind(operands) | words in | words out | |
// |---|---|---|---|
// | all | S(0), S(1) of every operand | the same | batch, channels |
// |  | S(s) of every operand | the same | aligned |
// | max_pool(x) | S(s) | P(max) | windows across the border; attribute `spatial` given |
// |  | P(max) | P(max) | a maximum of maxima |
// | avg_pool(x) | S(s) | P(sum) | attribute `spatial` given: counts are global |
// |  | P(sum) | P(sum) | linear |
// | max_pool_grad(x, dy) | B, P(sum) | P(sum) | linear in dy |
// | avg_pool_grad(dy) | S(s) | P(sum) | |
// |  | P(sum) | P(sum) | |
//
// And all B everywhere. The gradient of a maximum goes to the first of its largest elements in
// row-major order: with windows across a border only whoever has the whole window knows it.
#include "core/base/check.h"
#include "core/graphs/logical_graph.h"
#include "core/graphs/operator.h"
#include "core/operators/families.h"
#include "core/operators/layers/windows.h"
#include "core/operators/rules.h"

#include <optional>
#include <utility>

namespace sextant {
namespace {

using Integers = std::vector<std::int64_t>;

Windows pool_windows(std::string_view kind, const Attributes& attributes) {
  const Integers& kernel = attributes.integers("kernel");
  return Windows(kind, attributes, kernel, kernel);
}

// A window inside the padding alone would have no element.
void require_pool(std::string_view kind, const TensorType& x, const Windows& windows) {
  require_floating(kind, "x", x);
  require(x.shape.rank() == windows.rank() + kFirstSpatialDim && windows.rank() > 0,
          ErrorCode::kBadInput, "{}: x is {}, wanted [batch, channels] and {} spatial dims", kind,
          to_text(x), windows.rank());
  for (std::size_t dim = 0; dim < windows.rank(); ++dim)
    require(windows.padding[dim] < windows.kernel[dim] && windows.dilation[dim] == 1,
            ErrorCode::kBadInput, "{}: padding {} and dilation {}, wanted less than {} and 1", kind,
            windows.padding[dim], windows.dilation[dim], windows.kernel[dim]);
}

TensorType pooled_type(std::string_view kind, const TensorType& x, const Attributes& attributes) {
  const Windows windows = pool_windows(kind, attributes);
  require_pool(kind, x, windows);
  return {.shape = spatial_shape(x.shape[0], x.shape[1],
                                 window_counts(kind, windows, x.shape, attributes)),
          .dtype = x.dtype};
}

Work pool_work(Types inputs, Types outputs, const Attributes&) {
  return elementwise_work(inputs, outputs, 1, "pooling");
}

// All-B, batch, channels and aligned spatial dims for an operator whose operands are all split
// alike; with `across`, the word of the output where windows cross the border.
Rows pool_rows(const Windows& windows, const Shape& x, const Shape& y, std::size_t num_inputs,
               std::optional<Sbp> across) {
  Rows rows{all_broadcast(num_inputs, 1)};
  const auto add = [&](std::size_t dim, Sbp out, std::int64_t divisible) {
    rows.push_back({std::vector<Sbp>(num_inputs, Sbp::split(dim)), {out}, divisible});
  };
  for (const std::size_t dim : {0, 1}) add(dim, Sbp::split(dim), 0);
  for (std::size_t spatial = 0; spatial < windows.rank(); ++spatial) {
    const std::size_t dim = kFirstSpatialDim + spatial;
    const bool has_all = y[dim] == windows.count(spatial, x[dim]);
    if (has_all && windows.is_pointwise(spatial)) {
      add(dim, Sbp::split(dim), 0);
      continue;
    }
    if (has_all && windows.is_aligned(spatial, x[dim]) && y[dim] > 1)
      add(dim, Sbp::split(dim), y[dim]);
    if (across) add(dim, *across, 0);
  }
  return rows;
}

std::optional<Sbp> if_told(const Attributes& attributes, Sbp word) {
  return attributes.contains("spatial") ? std::optional(word) : std::nullopt;
}

std::vector<TensorType> infer_max_pool(Types inputs, const Attributes& attributes) {
  return {pooled_type("max_pool", inputs[0], attributes)};
}

Rows max_pool_rows(Types inputs, Types outputs, const Attributes& attributes) {
  Rows rows = pool_rows(pool_windows("max_pool", attributes), inputs[0].shape, outputs[0].shape, 1,
                        if_told(attributes, kPartialMax));
  rows.push_back({{kPartialMax}, {kPartialMax}});
  return rows;
}

void max_pool_gradient(GradientContext& context) {
  context.set_input_gradient(
      0, context.add("max_pool_grad", {context.input(0), *context.output_gradient(0)},
                     context.op().attributes, 0));
}

std::vector<TensorType> infer_max_pool_grad(Types inputs, const Attributes& attributes) {
  require_type("max_pool_grad", "dy", inputs[1],
               pooled_type("max_pool_grad", inputs[0], attributes));
  return {inputs[0]};
}

Rows max_pool_grad_rows(Types inputs, Types, const Attributes& attributes) {
  Rows rows = pool_rows(pool_windows("max_pool_grad", attributes), inputs[0].shape, inputs[1].shape,
                        2, std::nullopt);
  rows.push_back({{kBroadcast, kPartialSum}, {kPartialSum}});
  return rows;
}

std::vector<TensorType> infer_avg_pool(Types inputs, const Attributes& attributes) {
  return {pooled_type("avg_pool", inputs[0], attributes)};
}

Rows avg_pool_rows(Types inputs, Types outputs, const Attributes& attributes) {
  Rows rows = pool_rows(pool_windows("avg_pool", attributes), inputs[0].shape, outputs[0].shape, 1,
                        if_told(attributes, kPartialSum));
  rows.push_back({{kPartialSum}, {kPartialSum}});
  return rows;
}

void avg_pool_gradient(GradientContext& context) {
  Attributes attributes{
      {"shape", context.graph().tensor(context.input(0)).type.shape.extents()},
      {"count_padding", context.op().attributes.boolean_or("count_padding", false)}};
  for (const char* name : {"kernel", "stride", "padding"})
    if (context.op().attributes.contains(name))
      attributes.set(name, context.op().attributes.integers(name));
  context.set_input_gradient(
      0, context.add("avg_pool_grad", {*context.output_gradient(0)}, std::move(attributes), 0));
}

std::vector<TensorType> infer_avg_pool_grad(Types inputs, const Attributes& attributes) {
  constexpr std::string_view kind = "avg_pool_grad";
  const TensorType& dy = inputs[0];
  const Windows windows = pool_windows(kind, attributes);
  const TensorType dx{.shape = Shape(attributes.integers("shape")), .dtype = dy.dtype};
  require_pool(kind, dx, windows);
  require(dy.shape.rank() == dx.shape.rank() && dy.shape[0] == dx.shape[0] &&
              dy.shape[1] == dx.shape[1],
          ErrorCode::kBadInput, "{}: dy is {}, wanted batch and channels of x {}", kind,
          to_text(dy), to_text(dx));
  for (std::size_t dim = 0; dim < windows.rank(); ++dim) {
    const std::size_t at = kFirstSpatialDim + dim;
    require(dy.shape[at] <= windows.count(dim, dx.shape[at]), ErrorCode::kBadInput,
            "{}: dy is {}, x {} has {} windows in dim {}", kind, to_text(dy), to_text(dx),
            windows.count(dim, dx.shape[at]), at);
  }
  return {dx};
}

Rows avg_pool_grad_rows(Types inputs, Types outputs, const Attributes& attributes) {
  Rows rows = pool_rows(pool_windows("avg_pool_grad", attributes), outputs[0].shape,
                        inputs[0].shape, 1, kPartialSum);
  rows.push_back({{kPartialSum}, {kPartialSum}});
  return rows;
}

// Overlapping windows, touching ones, two dims.
std::vector<OperatorExample> pool_examples() {
  const auto list = [](Integers entries) { return entries; };
  return {
      {.inputs = {f64({2, 3, 7})},
       .attributes = {{"kernel", list({3})},
                      {"stride", list({2})},
                      {"padding", list({1})},
                      {"spatial", list({7})}}},
      {.inputs = {f64({2, 3, 12})}, .attributes = {{"kernel", list({2})}, {"spatial", list({12})}}},
      {.inputs = {f64({1, 2, 5, 8})},
       .attributes = {{"kernel", list({1, 3})}, {"stride", list({1, 2})}}}};
}

std::vector<OperatorExample> avg_pool_examples() {
  std::vector<OperatorExample> examples = pool_examples();
  examples.push_back(examples[0]);
  examples.back().attributes.set("count_padding", true);
  return examples;
}

std::vector<OperatorExample> max_pool_grad_examples() {
  std::vector<OperatorExample> examples = pool_examples();
  for (OperatorExample& example : examples)
    example.inputs.push_back(infer_max_pool(example.inputs, example.attributes)[0]);
  return examples;
}

std::vector<OperatorExample> avg_pool_grad_examples() {
  std::vector<OperatorExample> examples;
  for (const OperatorExample& forward : avg_pool_examples()) {
    Attributes attributes{{"shape", forward.inputs[0].shape.extents()}};
    for (const auto& [name, value] : forward.attributes.entries())
      if (name != "spatial") attributes.set(name, value);
    examples.push_back({.inputs = infer_avg_pool(forward.inputs, forward.attributes),
                        .attributes = std::move(attributes)});
  }
  return examples;
}

}  // namespace

void add_pool(OperatorRegistry& registry) {
  registry.add({.kind = "max_pool",
                .attributes = {{"kernel", kIntegers},
                               {"stride", kIntegers, kOptional},
                               {"padding", kIntegers, kOptional},
                               {"spatial", kIntegers, kOptional}},
                .infer = infer_max_pool,
                .work = pool_work,
                .signatures = max_pool_rows,
                .gradient = max_pool_gradient,
                .needs_offsets = true,
                .examples = pool_examples});
  registry.add({.kind = "max_pool_grad",
                .min_inputs = 2,
                .max_inputs = 2,
                .attributes = {{"kernel", kIntegers},
                               {"stride", kIntegers, kOptional},
                               {"padding", kIntegers, kOptional},
                               {"spatial", kIntegers, kOptional}},
                .infer = infer_max_pool_grad,
                .work = pool_work,
                .signatures = max_pool_grad_rows,
                .needs_offsets = true,
                .examples = max_pool_grad_examples});
  registry.add({.kind = "avg_pool",
                .attributes = {{"kernel", kIntegers},
                               {"stride", kIntegers, kOptional},
                               {"padding", kIntegers, kOptional},
                               {"spatial", kIntegers, kOptional},
                               {"count_padding", kBoolean, kOptional}},
                .infer = infer_avg_pool,
                .work = pool_work,
                .signatures = avg_pool_rows,
                .gradient = avg_pool_gradient,
                .needs_offsets = true,
                .examples = avg_pool_examples});
  registry.add({.kind = "avg_pool_grad",
                .attributes = {{"shape", kIntegers},
                               {"kernel", kIntegers},
                               {"stride", kIntegers, kOptional},
                               {"padding", kIntegers, kOptional},
                               {"spatial", kIntegers, kOptional},
                               {"count_padding", kBoolean, kOptional}},
                .infer = infer_avg_pool_grad,
                .work = pool_work,
                .signatures = avg_pool_grad_rows,
                .needs_offsets = true,
                .examples = avg_pool_grad_examples});
}

}  // namespace sextant
