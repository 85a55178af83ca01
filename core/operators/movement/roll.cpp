// Elements moved round along one dim: a ring of attention hands its keys on by it.
//
// | roll x | y | |
// |---|---|---|
// | S(i) | S(i) | i other than `dim`, or where nothing moves; any P |
// | S(dim) | S(dim) | parts of `shift` elements: a shift to the next device, no kernel |
#include "core/base/check.h"
#include "core/graphs/logical_graph.h"
#include "core/graphs/operator.h"
#include "core/operators/families.h"
#include "core/operators/rules.h"

namespace sextant {
namespace {

std::vector<TensorType> infer_roll(Types inputs, const Attributes& attributes) {
  const std::size_t dim = dim_attribute("roll", inputs[0], attributes);
  const std::int64_t extent = inputs[0].shape[dim], shift = attributes.integer("shift");
  require(shift >= 0 && shift <= extent, ErrorCode::kBadInput,
          "roll: shift {} along dim {} of {}, wanted 0 to {}", shift, dim, to_text(inputs[0]),
          extent);
  return {inputs[0]};
}

Rows roll_rows(Types inputs, Types, const Attributes& attributes) {
  const std::size_t rolled = dim_attribute("roll", inputs[0], attributes);
  const std::int64_t extent = inputs[0].shape[rolled], shift = attributes.integer("shift");
  const bool stays = shift == 0 || shift == extent;
  Rows rows{all_broadcast(1, 1)};
  for (std::size_t dim = 0; dim < inputs[0].shape.rank(); ++dim)
    if (dim != rolled || stays) rows.push_back({{Sbp::split(dim)}, {Sbp::split(dim)}});
  append_partial_rows(rows);
  if (!stays && extent % shift == 0)
    rows.push_back({{Sbp::split(rolled)}, {Sbp::split(rolled)}, 0, extent / shift});
  return rows;
}

void roll_gradient(GradientContext& context) {
  Attributes attributes = context.op().attributes;
  const TensorType& x = context.graph().tensor(context.input(0)).type;
  attributes.set("shift",
                 x.shape[dim_attribute("roll", x, attributes)] - attributes.integer("shift"));
  context.set_input_gradient(
      0, context.add("roll", {*context.output_gradient(0)}, std::move(attributes), 0));
}

std::vector<OperatorExample> roll_examples() {
  const auto example = [](std::int64_t dim, std::int64_t shift) {
    return OperatorExample{.inputs = {f64({2, 6, 3})},
                           .attributes = {{"dim", dim}, {"shift", shift}}};
  };
  return {example(1, 2), example(1, 5), example(2, 1), example(0, 0)};
}

}  // namespace

void add_roll(OperatorRegistry& registry) {
  registry.add({.kind = "roll",
                .attributes = {{"dim", kInteger}, {"shift", kInteger}},
                .infer = infer_roll,
                .work = copy_work,
                .signatures = roll_rows,
                .gradient = roll_gradient,
                .has_ring = true,
                .examples = roll_examples});
}

}  // namespace sextant
