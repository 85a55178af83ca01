// Running sums along one dim. A shard of that dim adds what it holds to every later element of the
// global result, so it writes the whole result: zeros before its elements, its total after.
//
// | kind | words in | words out | |
// |---|---|---|---|
// | cumsum(x) | S(another dim) | as x | |
// |  | S(dim) | P(sum) | the share of the shard in every element |
// |  | P(sum) | P(sum) | linear |
//
// And all B.
#include "core/base/check.h"
#include "core/graphs/logical_graph.h"
#include "core/graphs/operator.h"
#include "core/operators/families.h"
#include "core/operators/reductions/reduced_dims.h"
#include "core/operators/rules.h"

namespace sextant {
namespace {

std::size_t scanned_dim(const TensorType& x, const Attributes& attributes) {
  return normal_dim("cumsum", attributes.integer("dim"), x.shape.rank());
}

std::vector<TensorType> infer_cumsum(Types inputs, const Attributes& attributes) {
  scanned_dim(inputs[0], attributes);
  require_computed("cumsum", "x", inputs[0]);
  require(inputs[0].dtype != DType::kBool, ErrorCode::kBadInput,
          "cumsum: x is {}, wanted numbers: cast it first", to_text(inputs[0]));
  return {inputs[0]};
}

Rows cumsum_rows(Types inputs, Types, const Attributes& attributes) {
  const std::size_t scanned = scanned_dim(inputs[0], attributes);
  Rows rows{all_broadcast(1, 1)};
  for (std::size_t dim = 0; dim < inputs[0].shape.rank(); ++dim)
    rows.push_back({{Sbp::split(dim)}, {dim == scanned ? kPartialSum : Sbp::split(dim)}});
  rows.push_back({{kPartialSum}, {kPartialSum}});
  return rows;
}

// x[i] is in the sums of all elements behind it: those are summed from the other end.
void cumsum_gradient(GradientContext& context) {
  Attributes attributes = context.op().attributes;
  attributes.set("reverse", !attributes.boolean_or("reverse", false));
  context.set_input_gradient(
      0, context.add("cumsum", {*context.output_gradient(0)}, std::move(attributes), 0));
}

std::vector<OperatorExample> cumsum_examples() {
  return {{.inputs = {f64({2, 5, 4})}, .attributes = {{"dim", std::int64_t{1}}}},
          {.inputs = {f64({3, 5})},
           .attributes = {{"dim", std::int64_t{-1}}, {"reverse", true}, {"exclusive", true}}},
          {.inputs = {f64({5, 3})}, .attributes = {{"dim", std::int64_t{0}}, {"exclusive", true}}},
          {.inputs = {i32({7})}, .attributes = {{"dim", std::int64_t{0}}, {"reverse", true}}}};
}

}  // namespace

void add_scan(OperatorRegistry& registry) {
  registry.add({.kind = "cumsum",
                .attributes = {{"dim", kInteger},
                               {"reverse", kBoolean, kOptional},
                               {"exclusive", kBoolean, kOptional}},
                .infer = infer_cumsum,
                .work = reduction_pass<1>,
                .signatures = cumsum_rows,
                .gradient = cumsum_gradient,
                .needs_offsets = true,
                .examples = cumsum_examples});
}

}  // namespace sextant
