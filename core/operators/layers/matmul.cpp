// Matrix products: x [..., k] times w [k, n], and the gradient of w.
//
// matmul, row by row (d: any leading dim of x; last: of x or y; w transposed swaps S(0), S(1)):
// | x | w | y | |
// |---|---|---|---|
// | B | B | B | replicated |
// | S(d) | B | S(d) | data parallel |
// | B | S(1) | S(last) | column parallel |
// | S(last) | S(0) | P(sum) | contraction split |
// | P(sum) | B | P(sum) | linear in x |
// | B | P(sum) | P(sum) | linear in w |
//
// matmul_grad_weight dw = x^T dy, contracted over the leading dims:
// | x | dy | dw | |
// |---|---|---|---|
// | B | B | B | |
// | S(d) | S(d) | P(sum) | contraction split: data parallel |
// | S(last) | B | S(0) | rows of w: its contraction split |
// | B | S(last) | S(1) | columns of w |
// | P(sum) | B | P(sum) | bilinear: partial in one argument only |
// | B | P(sum) | P(sum) | |
#include "core/base/check.h"
#include "core/graphs/logical_graph.h"
#include "core/graphs/operator.h"
#include "core/operators/families.h"
#include "core/operators/rules.h"

namespace sextant {
namespace {

bool is_transposed(const Attributes& attributes) {
  return attributes.boolean_or("transpose_w", false);
}

// Dims of w: the contracted one and that of the columns.
std::size_t row_dim(const Attributes& attributes) { return is_transposed(attributes) ? 1 : 0; }
std::size_t column_dim(const Attributes& attributes) { return is_transposed(attributes) ? 0 : 1; }

std::vector<TensorType> infer_matmul(Types inputs, const Attributes& attributes) {
  const TensorType &x = inputs[0], &w = inputs[1];
  require_floating("matmul", "x", x);
  require_same_dtype("matmul", "w", w, "x", x);
  require_min_rank("matmul", "x", x, 1);
  require(w.shape.rank() == 2, ErrorCode::kBadInput, "matmul: w is {}, wanted 2 dims", to_text(w));
  const std::int64_t k = last_extent(x.shape);
  require(w.shape[row_dim(attributes)] == k, ErrorCode::kBadInput,
          "matmul: x is {} and w is {}{}: {} columns of x meet {} rows of w", to_text(x),
          to_text(w), is_transposed(attributes) ? " (transposed)" : "", k,
          w.shape[row_dim(attributes)]);
  return {{.shape = x.shape.with_extent(x.shape.rank() - 1, w.shape[column_dim(attributes)]),
           .dtype = dtype_or(attributes, "out_dtype", x.dtype)}};
}

// m x n results, each a sum over k.
Work product_work(Types inputs, Types outputs, std::int64_t m, std::int64_t n, std::int64_t k) {
  const Flops flops = 2.0 * static_cast<Flops>(m) * static_cast<Flops>(n) * static_cast<Flops>(k);
  return streaming_work(inputs, outputs, flops, fmt::format("matmul:{}x{}x{}", m, n, k));
}

Work matmul_work(Types inputs, Types outputs, const Attributes&) {
  return product_work(inputs, outputs, leading_dims(inputs[0].shape).elements(),
                      last_extent(outputs[0].shape), last_extent(inputs[0].shape));
}

Rows matmul_rows(Types inputs, Types, const Attributes& attributes) {
  const std::size_t last = inputs[0].shape.rank() - 1;
  const Sbp w_rows = Sbp::split(row_dim(attributes));
  const Sbp w_columns = Sbp::split(column_dim(attributes));
  Rows rows{all_broadcast(2, 1)};
  for (std::size_t dim = 0; dim < last; ++dim)
    rows.push_back({{Sbp::split(dim), kBroadcast}, {Sbp::split(dim)}});
  rows.push_back({{kBroadcast, w_columns}, {Sbp::split(last)}});
  rows.push_back({{Sbp::split(last), w_rows}, {kPartialSum}});
  rows.push_back({{kPartialSum, kBroadcast}, {kPartialSum}});
  rows.push_back({{kBroadcast, kPartialSum}, {kPartialSum}});
  return rows;
}

// dx = dy w^T and dw = x^T dy. Where the product was stored wider than its factors, dy is rounded
// to their type first: both products want equal types.
void matmul_gradient(GradientContext& context) {
  const TensorId x = context.input(0), w = context.input(1);
  const DType dtype = context.graph().tensor(x).type.dtype;
  const bool transposed = is_transposed(context.op().attributes);
  TensorId dy = *context.output_gradient(0);
  if (context.graph().tensor(dy).type.dtype != dtype)
    dy = context.add("cast", {dy}, {{"dtype", std::string(to_string(dtype))}},
                     context.wants(0) ? 0 : 1);
  if (context.wants(0)) {
    context.set_input_gradient(0,
                               context.add("matmul", {dy, w}, {{"transpose_w", !transposed}}, 0));
  }
  if (context.wants(1)) {
    context.set_input_gradient(
        1,
        context.add("matmul_grad_weight", {x, dy},
                    {{"transpose_w", transposed}, {"out_dtype", gradient_dtype(context, 1)}}, 1));
  }
}

std::vector<OperatorExample> matmul_examples() {
  return {{.inputs = {f64({5, 3}), f64({3, 7})}},
          {.inputs = {f64({2, 5, 3}), f64({7, 3})}, .attributes = {{"transpose_w", true}}},
          {.inputs = {f64({4}), f64({4, 3})}}};
}

std::vector<TensorType> infer_matmul_grad_weight(Types inputs, const Attributes& attributes) {
  const TensorType &x = inputs[0], &dy = inputs[1];
  require_floating("matmul_grad_weight", "x", x);
  require_same_dtype("matmul_grad_weight", "dy", dy, "x", x);
  require_min_rank("matmul_grad_weight", "x", x, 1);
  require_min_rank("matmul_grad_weight", "dy", dy, 1);
  require(leading_dims(x.shape) == leading_dims(dy.shape), ErrorCode::kBadInput,
          "matmul_grad_weight: x is {} and dy is {}: wanted equal leading dims", to_text(x),
          to_text(dy));
  const std::int64_t k = last_extent(x.shape), n = last_extent(dy.shape);
  return {{.shape = is_transposed(attributes) ? Shape({n, k}) : Shape({k, n}),
           .dtype = dtype_or(attributes, "out_dtype", accumulator_type(x.dtype))}};
}

Work grad_weight_work(Types inputs, Types outputs, const Attributes&) {
  return product_work(inputs, outputs, last_extent(inputs[0].shape), last_extent(inputs[1].shape),
                      leading_dims(inputs[0].shape).elements());
}

Rows matmul_grad_weight_rows(Types inputs, Types, const Attributes& attributes) {
  const std::size_t last = inputs[0].shape.rank() - 1;
  Rows rows{all_broadcast(2, 1)};
  for (std::size_t dim = 0; dim < last; ++dim)
    rows.push_back({{Sbp::split(dim), Sbp::split(dim)}, {kPartialSum}});
  rows.push_back({{Sbp::split(last), kBroadcast}, {Sbp::split(row_dim(attributes))}});
  rows.push_back({{kBroadcast, Sbp::split(last)}, {Sbp::split(column_dim(attributes))}});
  rows.push_back({{kPartialSum, kBroadcast}, {kPartialSum}});
  rows.push_back({{kBroadcast, kPartialSum}, {kPartialSum}});
  return rows;
}

std::vector<OperatorExample> grad_weight_examples() {
  return {{.inputs = {f64({5, 3}), f64({5, 7})}},
          {.inputs = {f64({2, 5, 3}), f64({2, 5, 7})}, .attributes = {{"transpose_w", true}}}};
}

}  // namespace

void add_matmul(OperatorRegistry& registry) {
  registry.add(
      {.kind = "matmul",
       .role = OperatorRole::kProduct,
       .min_inputs = 2,
       .max_inputs = 2,
       .attributes = {{"transpose_w", kBoolean, kOptional}, {"out_dtype", kText, kOptional}},
       .infer = infer_matmul,
       .work = matmul_work,
       .signatures = matmul_rows,
       .gradient = matmul_gradient,
       .examples = matmul_examples});
  registry.add(
      {.kind = "matmul_grad_weight",
       .role = OperatorRole::kProductWeightGradient,
       .min_inputs = 2,
       .max_inputs = 2,
       .attributes = {{"transpose_w", kBoolean, kOptional}, {"out_dtype", kText, kOptional}},
       .infer = infer_matmul_grad_weight,
       .work = grad_weight_work,
       .signatures = matmul_grad_weight_rows,
       .examples = grad_weight_examples});
}

}  // namespace sextant
