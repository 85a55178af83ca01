// A matrix product per batch element: x [..., m, k] times w [..., k, n], leading dims equal. A
// weight that all batch elements share is `matmul`.
//
// d: a leading dim; m, k, n: the dims of the matrices, wherever transpose_x and transpose_w put
// them. | x | w | y | |
// |---|---|---|---|
// | B | B | B | replicated |
// | S(d) | S(d) | S(d) | batch |
// | S(m) | B | S(m) | rows |
// | B | S(n) | S(n) | columns |
// | S(k) | S(k) | P(sum) | contraction split |
// | P(sum) | B | P(sum) | linear in x |
// | B | P(sum) | P(sum) | linear in w |
#include "core/base/check.h"
#include "core/graphs/logical_graph.h"
#include "core/graphs/operator.h"
#include "core/operators/families.h"
#include "core/operators/rules.h"

#include <utility>

namespace sextant {
namespace {

bool is_x_transposed(const Attributes& attributes) {
  return attributes.boolean_or("transpose_x", false);
}
bool is_w_transposed(const Attributes& attributes) {
  return attributes.boolean_or("transpose_w", false);
}

// Where the dims of the matrices are; `first` is the number of leading dims.
struct MatrixDims {
  std::size_t x_m, x_k, w_k, w_n;
};
MatrixDims matrix_dims(std::size_t first, const Attributes& attributes) {
  const std::size_t x = is_x_transposed(attributes) ? 1 : 0;
  const std::size_t w = is_w_transposed(attributes) ? 1 : 0;
  return {.x_m = first + x, .x_k = first + 1 - x, .w_k = first + w, .w_n = first + 1 - w};
}

std::vector<TensorType> infer_batch_matmul(Types inputs, const Attributes& attributes) {
  const TensorType &x = inputs[0], &w = inputs[1];
  require_floating("batch_matmul", "x", x);
  require_same_dtype("batch_matmul", "w", w, "x", x);
  require_min_rank("batch_matmul", "x", x, 2);
  require_min_rank("batch_matmul", "w", w, 2);
  require(leading_dims(x.shape, 2) == leading_dims(w.shape, 2), ErrorCode::kBadInput,
          "batch_matmul: x is {} and w is {}: wanted equal leading dims (matmul shares one w)",
          to_text(x), to_text(w));
  const std::size_t first = x.shape.rank() - 2;
  const MatrixDims dims = matrix_dims(first, attributes);
  require(x.shape[dims.x_k] == w.shape[dims.w_k], ErrorCode::kBadInput,
          "batch_matmul: x is {}{} and w is {}{}: {} columns of x meet {} rows of w", to_text(x),
          is_x_transposed(attributes) ? " (transposed)" : "", to_text(w),
          is_w_transposed(attributes) ? " (transposed)" : "", x.shape[dims.x_k], w.shape[dims.w_k]);
  return {
      {.shape =
           x.shape.with_extent(first, x.shape[dims.x_m]).with_extent(first + 1, w.shape[dims.w_n]),
       .dtype = dtype_or(attributes, "out_dtype", x.dtype)}};
}

// The key counts the batch as rows of one product.
Work batch_matmul_work(Types inputs, Types outputs, const Attributes& attributes) {
  const Shape &x = inputs[0].shape, &y = outputs[0].shape;
  const std::int64_t rows = leading_dims(y).elements(), n = last_extent(y);
  const std::int64_t k = x[matrix_dims(x.rank() - 2, attributes).x_k];
  const Flops flops =
      2.0 * static_cast<Flops>(rows) * static_cast<Flops>(n) * static_cast<Flops>(k);
  return streaming_work(inputs, outputs, flops, fmt::format("matmul:{}x{}x{}", rows, n, k));
}

Rows batch_matmul_rows(Types inputs, Types, const Attributes& attributes) {
  const std::size_t first = inputs[0].shape.rank() - 2;
  const MatrixDims dims = matrix_dims(first, attributes);
  Rows rows{all_broadcast(2, 1)};
  for (std::size_t dim = 0; dim < first; ++dim)
    rows.push_back({{Sbp::split(dim), Sbp::split(dim)}, {Sbp::split(dim)}});
  rows.push_back({{Sbp::split(dims.x_m), kBroadcast}, {Sbp::split(first)}});
  rows.push_back({{kBroadcast, Sbp::split(dims.w_n)}, {Sbp::split(first + 1)}});
  rows.push_back({{Sbp::split(dims.x_k), Sbp::split(dims.w_k)}, {kPartialSum}});
  rows.push_back({{kPartialSum, kBroadcast}, {kPartialSum}});
  rows.push_back({{kBroadcast, kPartialSum}, {kPartialSum}});
  return rows;
}

// With X, W the factors as they are multiplied: dX = dY W^T, dW = X^T dY, and the transposes of
// these where the factor is stored transposed: dx = W dY^T, dw = dY^T X.
void batch_matmul_gradient(GradientContext& context) {
  const TensorId x = context.input(0), w = context.input(1);
  const bool in_x = is_x_transposed(context.op().attributes);
  const bool in_w = is_w_transposed(context.op().attributes);
  const DType dtype = context.graph().tensor(x).type.dtype;
  TensorId dy = *context.output_gradient(0);
  if (context.graph().tensor(dy).type.dtype != dtype)
    dy = context.add("cast", {dy}, {{"dtype", std::string(to_string(dtype))}},
                     context.wants(0) ? 0 : 1);
  const auto product = [&](TensorId left, bool left_transposed, TensorId right,
                           bool right_transposed, std::size_t input) {
    context.set_input_gradient(input, context.add("batch_matmul", {left, right},
                                                  {{"transpose_x", left_transposed},
                                                   {"transpose_w", right_transposed},
                                                   {"out_dtype", gradient_dtype(context, input)}},
                                                  input));
  };
  if (context.wants(0)) in_x ? product(w, in_w, dy, true, 0) : product(dy, false, w, !in_w, 0);
  if (context.wants(1)) in_w ? product(dy, true, x, in_x, 1) : product(x, !in_x, dy, false, 1);
}

std::vector<OperatorExample> batch_matmul_examples() {
  const Attributes x_only = {{"transpose_x", true}}, w_only = {{"transpose_w", true}};
  const Attributes both = {{"transpose_x", true}, {"transpose_w", true}};
  return {{.inputs = {f64({5, 2, 3}), f64({5, 3, 4})}},
          {.inputs = {f64({2, 5, 3, 4}), f64({2, 5, 7, 4})}, .attributes = w_only},
          {.inputs = {f64({2, 3, 5}), f64({2, 3, 4})}, .attributes = x_only},
          {.inputs = {f64({3, 5, 2}), f64({3, 4, 5})}, .attributes = both},
          {.inputs = {f64({5, 3}), f64({3, 7})}}};
}

}  // namespace

void add_batch_matmul(OperatorRegistry& registry) {
  registry.add({.kind = "batch_matmul",
                .role = OperatorRole::kBatchProduct,
                .min_inputs = 2,
                .max_inputs = 2,
                .attributes = {{"transpose_x", kBoolean, kOptional},
                               {"transpose_w", kBoolean, kOptional},
                               {"out_dtype", kText, kOptional}},
                .infer = infer_batch_matmul,
                .work = batch_matmul_work,
                .signatures = batch_matmul_rows,
                .gradient = batch_matmul_gradient,
                .examples = batch_matmul_examples});
}

}  // namespace sextant
