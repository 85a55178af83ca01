// Convolutions of any number of spatial dims, x [N, C, spatial ...] with w [O, C / groups, kernel
// ...], and their gradients. The number of groups is C over the second dim of w. Windows have
// global positions, so the kernels need to know their boxes: what lies in another part is left to
// it. s: a spatial dim; *aligned*: windows do not overlap and fill the dim (stride >= span, no
// padding), over parts that divide their number; of pointwise windows (kernel 1, stride 1) over any
// parts.
//
// | conv x | w | y | |
// |---|---|---|---|
// | B | B | B | |
// | S(0) | B | S(0) | batch |
// | B | S(0) | S(1) | output channels; one group |
// | S(1) | S(1) | P(sum) | input channels; one group |
// | S(1) | S(0) | S(1) | groups, over parts that divide them; depthwise over any parts |
// | S(s) | B | S(s) | aligned |
// | S(s) | B | P(sum) | windows across the border are summed in parts; attribute `spatial` given |
// | P(sum) | B | P(sum) | bilinear |
// | B | P(sum) | P(sum) | |
//
// | conv_grad_input dy | w | dx | | conv_grad_weight x | dy | dw | |
// |---|---|---|---|---|---|---|---|
// | B | B | B | | B | B | B | |
// | S(0) | B | S(0) | | S(0) | S(0) | P(sum) | |
// | S(1) | S(0) | P(sum) | one group | S(1) | B | S(1) | one group |
// | B | S(1) | S(1) | one group | B | S(1) | S(0) | one group |
// | S(1) | S(0) | S(1) | groups | S(1) | S(1) | S(0) | groups |
// | S(s) | B | S(s) | aligned | S(s) | S(s) | P(sum) | aligned |
// | S(s) | B | P(sum) | | S(s) | B | P(sum) | |
// | P(sum) in one, B in the other | | P(sum) | | B | S(s) | P(sum) | |
// | | | | | P(sum) in one, B in the other | | P(sum) | |
//
// A halo exchange is no row: a row moves nothing. x S(s) with overlapping windows costs a reduction
// of y, or a boxing of x to B.
#include "core/base/check.h"
#include "core/graphs/logical_graph.h"
#include "core/graphs/operator.h"
#include "core/operators/families.h"
#include "core/operators/layers/windows.h"
#include "core/operators/rules.h"

#include <algorithm>
#include <utility>

namespace sextant {
namespace {

using Integers = std::vector<std::int64_t>;

constexpr Sbp kBatchPart{.kind = Sbp::Kind::kSplit, .dim = 0};
constexpr Sbp kChannels{.kind = Sbp::Kind::kSplit, .dim = 1};  // of x, y
constexpr Sbp kOutputs{.kind = Sbp::Kind::kSplit, .dim = 0};   // of w
constexpr Sbp kInputs{.kind = Sbp::Kind::kSplit, .dim = 1};    // of w

// Groups of x channels and of the outputs of w; x [N, C, ...], w [O, C / groups, ...].
struct Groups {
  std::int64_t count = 1;
  bool is_depthwise = false;  // one channel in, one out

  Groups(const Shape& x, const Shape& w) {
    if (w[1] > 0) count = std::max<std::int64_t>(1, x[1] / w[1]);
    is_depthwise = count > 1 && w[1] == 1 && w[0] == count;
  }
  // For rows that split groups.
  std::int64_t divisible() const { return is_depthwise ? 0 : count; }
};

void require_operands(std::string_view kind, std::string_view first, const TensorType& x,
                      std::string_view second, const TensorType& y) {
  require_floating(kind, first, x);
  require_same_dtype(kind, second, y, first, x);
  require_min_rank(kind, first, x, kFirstSpatialDim + 1);
  require(y.shape.rank() == x.shape.rank(), ErrorCode::kBadInput,
          "{}: {} is {} and {} is {}: wanted as many dims", kind, first, to_text(x), second,
          to_text(y));
}

// x channels and outputs of w belong together. A shard may have none of either.
void require_channels(std::string_view kind, const Shape& x, const Shape& w) {
  const std::int64_t per_group = w[1];
  if (x[1] == 0 && w[0] == 0) return;
  require(per_group == 0 ? x[1] == 0 : x[1] > 0 && x[1] % per_group == 0, ErrorCode::kBadInput,
          "{}: {} channels of x {} are no whole number of groups of {} as w {} has", kind, x[1],
          to_string(x), per_group, to_string(w));
  const std::int64_t groups = Groups(x, w).count;
  require(w[0] % groups == 0, ErrorCode::kBadInput,
          "{}: the {} outputs of w {} do not divide into {} groups", kind, w[0], to_string(w),
          groups);
}

std::vector<TensorType> infer_conv(Types inputs, const Attributes& attributes) {
  const TensorType &x = inputs[0], &w = inputs[1];
  require_operands("conv", "x", x, "w", w);
  require_channels("conv", x.shape, w.shape);
  const Windows windows("conv", attributes, spatial_extents(w.shape));
  return {{.shape = spatial_shape(x.shape[0], w.shape[0],
                                  window_counts("conv", windows, x.shape, attributes)),
           .dtype = x.dtype}};
}

// Multiply-adds of the windows, or of the positions they read where these are a part of x. A matrix
// product over taps, for every position of y.
Work conv_flops(Types inputs, Types outputs, const Shape& x, const Shape& w, const Shape& y,
                const Attributes& attributes) {
  const Windows windows("conv", attributes, spatial_extents(w));
  auto taps = static_cast<Flops>(y[0]) * static_cast<Flops>(w[0]) * static_cast<Flops>(w[1]);
  std::int64_t positions = y[0], depth = w[1];
  for (std::size_t dim = 0; dim < windows.rank(); ++dim) {
    const std::int64_t per_position =
        (windows.kernel[dim] + windows.stride[dim] - 1) / windows.stride[dim];
    taps *= static_cast<Flops>(std::min(y[kFirstSpatialDim + dim] * windows.kernel[dim],
                                        x[kFirstSpatialDim + dim] * per_position));
    positions *= y[kFirstSpatialDim + dim];
    depth *= windows.kernel[dim];
  }
  return streaming_work(inputs, outputs, 2 * taps,
                        fmt::format("conv:{}x{}x{}", positions, w[0], depth));
}

Work conv_work(Types inputs, Types outputs, const Attributes& attributes) {
  return conv_flops(inputs, outputs, inputs[0].shape, inputs[1].shape, outputs[0].shape,
                    attributes);
}

Rows conv_rows(Types inputs, Types outputs, const Attributes& attributes) {
  const Shape &x = inputs[0].shape, &w = inputs[1].shape, &y = outputs[0].shape;
  const Sbp b = kBroadcast, p = kPartialSum;
  const Groups groups(x, w);
  const Windows windows("conv", attributes, spatial_extents(w));
  Rows rows{all_broadcast(2, 1), {{kBatchPart, b}, {kBatchPart}}};
  if (groups.count == 1) {
    rows.push_back({{b, kOutputs}, {kChannels}});
    rows.push_back({{kChannels, kInputs}, {p}});
  } else {
    rows.push_back({{kChannels, kOutputs}, {kChannels}, groups.divisible()});
  }
  for (std::size_t dim = 0; dim < windows.rank(); ++dim) {
    const Sbp part = Sbp::split(kFirstSpatialDim + dim);
    const std::int64_t count = y[part.dim];
    const bool has_all = count == windows.count(dim, x[part.dim]);
    if (has_all && windows.is_pointwise(dim)) {
      rows.push_back({{part, b}, {part}});
      continue;
    }
    if (has_all && windows.is_aligned(dim, x[part.dim]) && count > 1)
      rows.push_back({{part, b}, {part}, count});
    if (attributes.contains("spatial")) rows.push_back({{part, b}, {p}});
  }
  rows.push_back({{p, b}, {p}});
  rows.push_back({{b, p}, {p}});
  return rows;
}

// The attributes of the windows, with the shape of what is made.
Attributes gradient_attributes(const Attributes& forward, const Shape& made) {
  Attributes attributes{{"shape", made.extents()}};
  for (const char* name : {"stride", "padding", "dilation"})
    if (forward.contains(name)) attributes.set(name, forward.integers(name));
  return attributes;
}

void conv_gradient(GradientContext& context) {
  const TensorId x = context.input(0), w = context.input(1), dy = *context.output_gradient(0);
  const auto attributes = [&](TensorId made) {
    return gradient_attributes(context.op().attributes, context.graph().tensor(made).type.shape);
  };
  if (context.wants(0))
    context.set_input_gradient(0, context.add("conv_grad_input", {dy, w}, attributes(x), 0));
  if (!context.wants(1)) return;
  Attributes of_weight = attributes(w);
  of_weight.set("out_dtype", gradient_dtype(context, 1));
  context.set_input_gradient(1, context.add("conv_grad_weight", {x, dy}, of_weight, 1));
}

Shape made_shape(std::string_view kind, const Attributes& attributes, const TensorType& like) {
  Shape shape(attributes.integers("shape"));
  require(shape.rank() == like.shape.rank(), ErrorCode::kBadInput,
          "{}: shape {} has {} dims, wanted as many as {}", kind, to_string(shape), shape.rank(),
          to_text(like));
  return shape;
}

std::vector<TensorType> infer_conv_grad_input(Types inputs, const Attributes& attributes) {
  constexpr std::string_view kind = "conv_grad_input";
  const TensorType &dy = inputs[0], &w = inputs[1];
  require_operands(kind, "dy", dy, "w", w);
  const Shape dx = made_shape(kind, attributes, dy);
  require(dx[0] == dy.shape[0] && dy.shape[1] == w.shape[0], ErrorCode::kBadInput,
          "{}: dy is {}, wanted the batch of x {} and the outputs of w {}", kind, to_text(dy),
          to_string(dx), to_string(w.shape));
  require_channels(kind, dx, w.shape);
  const Windows windows(kind, attributes, spatial_extents(w.shape));
  for (std::size_t dim = 0; dim < windows.rank(); ++dim) {
    const std::size_t at = kFirstSpatialDim + dim;
    require(dy.shape[at] <= windows.count(dim, dx[at]), ErrorCode::kBadInput,
            "{}: dy is {}, x {} has {} windows in dim {}", kind, to_text(dy), to_string(dx),
            windows.count(dim, dx[at]), at);
  }
  return {{.shape = dx, .dtype = dy.dtype}};
}

Work grad_input_work(Types inputs, Types outputs, const Attributes& attributes) {
  return conv_flops(inputs, outputs, outputs[0].shape, inputs[1].shape, inputs[0].shape,
                    attributes);
}

Rows conv_grad_input_rows(Types inputs, Types outputs, const Attributes& attributes) {
  const Shape &dy = inputs[0].shape, &w = inputs[1].shape, &dx = outputs[0].shape;
  const Sbp b = kBroadcast, p = kPartialSum;
  const Groups groups(dx, w);
  const Windows windows("conv_grad_input", attributes, spatial_extents(w));
  Rows rows{all_broadcast(2, 1), {{kBatchPart, b}, {kBatchPart}}};
  if (groups.count == 1) {
    rows.push_back({{kChannels, kOutputs}, {p}});
    rows.push_back({{b, kInputs}, {kChannels}});
  } else {
    rows.push_back({{kChannels, kOutputs}, {kChannels}, groups.divisible()});
  }
  for (std::size_t dim = 0; dim < windows.rank(); ++dim) {
    const Sbp part = Sbp::split(kFirstSpatialDim + dim);
    const std::int64_t count = dy[part.dim];
    const bool has_all = count == windows.count(dim, dx[part.dim]);
    if (has_all && windows.is_pointwise(dim)) {
      rows.push_back({{part, b}, {part}});
      continue;
    }
    if (has_all && windows.is_aligned(dim, dx[part.dim]) && count > 1)
      rows.push_back({{part, b}, {part}, count});
    rows.push_back({{part, b}, {p}});
  }
  rows.push_back({{p, b}, {p}});
  rows.push_back({{b, p}, {p}});
  return rows;
}

std::vector<TensorType> infer_conv_grad_weight(Types inputs, const Attributes& attributes) {
  constexpr std::string_view kind = "conv_grad_weight";
  const TensorType &x = inputs[0], &dy = inputs[1];
  require_operands(kind, "x", x, "dy", dy);
  const Shape dw = made_shape(kind, attributes, x);
  require(x.shape[0] == dy.shape[0] && dy.shape[1] == dw[0], ErrorCode::kBadInput,
          "{}: dy is {}, wanted the batch of x {} and the outputs of w {}", kind, to_text(dy),
          to_string(x.shape), to_string(dw));
  require_channels(kind, x.shape, dw);
  Windows(kind, attributes, spatial_extents(dw));
  return {{.shape = dw, .dtype = dtype_or(attributes, "out_dtype", accumulator_type(x.dtype))}};
}

Work conv_grad_weight_work(Types inputs, Types outputs, const Attributes& attributes) {
  return conv_flops(inputs, outputs, inputs[0].shape, outputs[0].shape, inputs[1].shape,
                    attributes);
}

Rows conv_grad_weight_rows(Types inputs, Types outputs, const Attributes& attributes) {
  const Shape &x = inputs[0].shape, &dy = inputs[1].shape, &dw = outputs[0].shape;
  const Sbp b = kBroadcast, p = kPartialSum;
  const Groups groups(x, dw);
  const Windows windows("conv_grad_weight", attributes, spatial_extents(dw));
  Rows rows{all_broadcast(2, 1), {{kBatchPart, kBatchPart}, {p}}};
  if (groups.count == 1) {
    rows.push_back({{kChannels, b}, {kInputs}});
    rows.push_back({{b, kChannels}, {kOutputs}});
  } else {
    rows.push_back({{kChannels, kChannels}, {kOutputs}, groups.divisible()});
  }
  for (std::size_t dim = 0; dim < windows.rank(); ++dim) {
    const Sbp part = Sbp::split(kFirstSpatialDim + dim);
    const std::int64_t count = dy[part.dim];
    const bool has_all = count == windows.count(dim, x[part.dim]);
    if (has_all && windows.is_pointwise(dim)) {
      rows.push_back({{part, part}, {p}});
      continue;
    }
    if (has_all && windows.is_aligned(dim, x[part.dim]) && count > 1)
      rows.push_back({{part, part}, {p}, count});
    rows.push_back({{part, b}, {p}});
    rows.push_back({{b, part}, {p}});
  }
  rows.push_back({{p, b}, {p}});
  rows.push_back({{b, p}, {p}});
  return rows;
}

// Overlapping windows with padding; touching ones; two dims with stride and dilation; groups;
// depthwise.
std::vector<OperatorExample> conv_examples() {
  const auto list = [](Integers entries) { return entries; };
  return {{.inputs = {f64({2, 3, 5}), f64({4, 3, 3})},
           .attributes = {{"padding", list({1})}, {"spatial", list({5})}}},
          {.inputs = {f64({2, 2, 12}), f64({3, 2, 2})},
           .attributes = {{"stride", list({2})}, {"spatial", list({12})}}},
          {.inputs = {f64({1, 2, 5, 7}), f64({3, 2, 1, 2})},
           .attributes = {{"stride", list({1, 2})},
                          {"dilation", list({1, 3})},
                          {"padding", list({0, 1})},
                          {"spatial", list({5, 7})}}},
          {.inputs = {f64({2, 6, 4}), f64({9, 2, 3})}, .attributes = {{"padding", list({1})}}},
          {.inputs = {f64({2, 5, 4}), f64({5, 1, 3})}}};
}

// The examples of conv with dy in place of x or w.
std::vector<OperatorExample> gradient_examples(bool for_weight) {
  std::vector<OperatorExample> examples;
  for (const OperatorExample& forward : conv_examples()) {
    const TensorType &x = forward.inputs[0], &w = forward.inputs[1];
    const TensorType dy = infer_conv(forward.inputs, forward.attributes)[0];
    examples.push_back(
        {.inputs = for_weight ? std::vector{x, dy} : std::vector{dy, w},
         .attributes = gradient_attributes(forward.attributes, for_weight ? w.shape : x.shape)});
  }
  return examples;
}

}  // namespace

void add_conv(OperatorRegistry& registry) {
  registry.add({.kind = "conv",
                .role = OperatorRole::kConvolution,
                .min_inputs = 2,
                .max_inputs = 2,
                .attributes = {{"stride", kIntegers, kOptional},
                               {"padding", kIntegers, kOptional},
                               {"dilation", kIntegers, kOptional},
                               {"spatial", kIntegers, kOptional}},
                .infer = infer_conv,
                .work = conv_work,
                .signatures = conv_rows,
                .gradient = conv_gradient,
                .needs_offsets = true,
                .examples = conv_examples});
  registry.add({.kind = "conv_grad_input",
                .min_inputs = 2,
                .max_inputs = 2,
                .attributes = {{"shape", kIntegers},
                               {"stride", kIntegers, kOptional},
                               {"padding", kIntegers, kOptional},
                               {"dilation", kIntegers, kOptional},
                               {"spatial", kIntegers, kOptional}},
                .infer = infer_conv_grad_input,
                .work = grad_input_work,
                .signatures = conv_grad_input_rows,
                .needs_offsets = true,
                .examples = [] { return gradient_examples(false); }});
  registry.add({.kind = "conv_grad_weight",
                .min_inputs = 2,
                .max_inputs = 2,
                .attributes = {{"shape", kIntegers},
                               {"stride", kIntegers, kOptional},
                               {"padding", kIntegers, kOptional},
                               {"dilation", kIntegers, kOptional},
                               {"spatial", kIntegers, kOptional},
                               {"out_dtype", kText, kOptional}},
                .infer = infer_conv_grad_weight,
                .work = conv_grad_weight_work,
                .signatures = conv_grad_weight_rows,
                .needs_offsets = true,
                .examples = [] { return gradient_examples(true); }});
}

}  // namespace sextant
