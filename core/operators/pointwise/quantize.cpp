// Tensors in 8 bits: one scale for all of a tensor, taken from what it holds.
//
// | kind(operands) | words in | words out | |
// |---|---|---|---|
// | quantize_scale(x) | B | B | |
// |  | S(d) | P(max) | monotone in the largest magnitude: the largest of the parts' is the whole's |
// | quantize(x, scale) | B, B | B | |
// |  | S(d), B | S(d) in rows, S(d + 1) in columns; S(0) there of the last dim | |
//
// Scales are powers of two, so that dividing by them is exact: each element is rounded once, to the
// same bits on every device. What that loses is at most one exponent at the lower end; the relative
// error of a floating format is the same everywhere above.
#include "core/operators/pointwise/quantize.h"

#include "core/base/check.h"
#include "core/graphs/operator.h"
#include "core/operators/families.h"
#include "core/operators/rules.h"

#include <string>
#include <utility>

namespace sextant {
namespace {

DType eight_bits(std::string_view kind, const Attributes& attributes) {
  const DType dtype = parse_dtype(attributes.text("dtype"));
  require(is_8_bit_floating(dtype), ErrorCode::kBadInput, "{}: dtype {}, wanted e4m3 or e5m2", kind,
          to_string(dtype));
  return dtype;
}

std::vector<TensorType> infer_quantize_scale(Types inputs, const Attributes& attributes) {
  require_floating("quantize_scale", "x", inputs[0]);
  eight_bits("quantize_scale", attributes);
  return {{.shape = Shape(), .dtype = DType::kF32}};
}

Rows quantize_scale_rows(Types inputs, Types, const Attributes&) {
  Rows rows{all_broadcast(1, 1)};
  for (std::size_t dim = 0; dim < inputs[0].shape.rank(); ++dim)
    rows.push_back({{Sbp::split(dim)}, {kPartialMax}});
  return rows;
}

// The last dim first.
Shape columns_of(const Shape& shape) {
  std::vector<std::int64_t> extents = shape.extents();
  extents.insert(extents.begin(), extents.back());
  extents.pop_back();
  return Shape(std::move(extents));
}

std::vector<TensorType> infer_quantize(Types inputs, const Attributes& attributes) {
  const TensorType& x = inputs[0];
  require_floating("quantize", "x", x);
  require_min_rank("quantize", "x", x, 1);
  require_type("quantize", "scale", inputs[1], {.shape = Shape(), .dtype = DType::kF32});
  const DType dtype = eight_bits("quantize", attributes);
  const CopyOrders layout = copy_orders(attributes);
  std::vector<TensorType> outputs;
  if (layout.has_rows) outputs.push_back({.shape = x.shape, .dtype = dtype});
  if (layout.has_columns) outputs.push_back({.shape = columns_of(x.shape), .dtype = dtype});
  return outputs;
}

Rows quantize_rows(Types inputs, Types outputs, const Attributes& attributes) {
  const std::size_t rank = inputs[0].shape.rank();
  const CopyOrders layout = copy_orders(attributes);
  Rows rows{all_broadcast(2, outputs.size())};
  for (std::size_t dim = 0; dim < rank; ++dim) {
    std::vector<Sbp> made;
    if (layout.has_rows) made.push_back(Sbp::split(dim));
    if (layout.has_columns) made.push_back(Sbp::split(dim + 1 == rank ? 0 : dim + 1));
    rows.push_back({{Sbp::split(dim), kBroadcast}, std::move(made)});
  }
  return rows;
}

TensorType f32_type(Shape shape) { return {.shape = std::move(shape), .dtype = DType::kF32}; }

// Magnitudes on both sides of 448, where steps change.
std::vector<OperatorExample> quantize_scale_examples() {
  return {{.inputs = {f64({5, 3})}, .attributes = {{"dtype", "e4m3"}}, .ranges = {{-500, 500}}},
          {.inputs = {f32_type({2, 5, 3})},
           .attributes = {{"dtype", "e5m2"}},
           .ranges = {{-500, 500}}}};
}

std::vector<OperatorExample> quantize_examples() {
  return {{.inputs = {f64({5, 3}), f32_type(Shape())},
           .attributes = {{"dtype", "e4m3"}},
           .ranges = {{-3, 3}, {2, 2}}},
          {.inputs = {f32_type({2, 5, 3}), f32_type(Shape())},
           .attributes = {{"dtype", "e5m2"}, {"layout", "columns"}},
           .ranges = {{-3, 3}, {1, 1}}},
          {.inputs = {f32_type({2, 5, 3}), f32_type(Shape())},
           .attributes = {{"dtype", "e4m3"}, {"layout", "both"}},
           .ranges = {{-700, 700}, {2, 2}}}};
}

}  // namespace

CopyOrders copy_orders(const Attributes& attributes) {
  const std::string layout =
      attributes.contains("layout") ? attributes.text("layout") : std::string("rows");
  if (layout == "rows") return {true, false};
  if (layout == "columns") return {false, true};
  require(layout == "both", ErrorCode::kBadInput,
          "quantize: layout '{}' is unknown, wanted rows, columns or both", layout);
  return {true, true};
}

void add_quantize(OperatorRegistry& registry) {
  registry.add({.kind = "quantize_scale",
                .role = OperatorRole::kQuantizeScale,
                .attributes = {{"dtype", kText}},
                .infer = infer_quantize_scale,
                .work = reduction_pass<1>,
                .signatures = quantize_scale_rows,
                .examples = quantize_scale_examples});
  registry.add({.kind = "quantize",
                .role = OperatorRole::kQuantize,
                .min_inputs = 2,
                .max_inputs = 2,
                .attributes = {{"dtype", kText}, {"layout", kText, kOptional}},
                .infer = infer_quantize,
                .work = copy_work,
                .signatures = quantize_rows,
                .examples = quantize_examples});
}

}  // namespace sextant
