// Rotary positions: pairs (i, i + D/2) of the last dim turned by an angle that grows with the
// *global* sequence index, so the kernel needs the offset of its shard.
//
// | x [B, S, H, D] | y | |
// |---|---|---|
// | B | B | |
// | S(0), S(1), S(2) | the same | batch, sequence, heads; a split of D would part the pairs |
// | P(sum) | P(sum) | a rotation is linear |
#include "core/base/check.h"
#include "core/graphs/logical_graph.h"
#include "core/graphs/operator.h"
#include "core/operators/families.h"
#include "core/operators/rules.h"

#include <utility>

namespace sextant {
namespace {

std::vector<TensorType> infer_rope(Types inputs, const Attributes& attributes) {
  const TensorType& x = inputs[0];
  require_floating("rope", "x", x);
  require(x.shape.rank() == 4 && last_extent(x.shape) % 2 == 0, ErrorCode::kBadInput,
          "rope: x is {}, wanted [batch, sequence, heads, head size] with an even head size",
          to_text(x));
  require(attributes.real("theta") > 0, ErrorCode::kBadInput, "rope: theta {} is not positive",
          attributes.real("theta"));
  return {x};
}

Rows rope_rows(Types, Types, const Attributes&) {
  Rows rows{all_broadcast(1, 1)};
  for (std::size_t dim = 0; dim < 3; ++dim) rows.push_back({{Sbp::split(dim)}, {Sbp::split(dim)}});
  rows.push_back({{kPartialSum}, {kPartialSum}});
  return rows;
}

// The transpose of a rotation is the rotation by the opposite angle.
void rope_gradient(GradientContext& context) {
  Attributes attributes = context.op().attributes;
  attributes.set("inverse", !attributes.boolean_or("inverse", false));
  context.set_input_gradient(
      0, context.add("rope", {*context.output_gradient(0)}, std::move(attributes), 0));
}

}  // namespace

void add_rope(OperatorRegistry& registry) {
  registry.add(
      {.kind = "rope",
       .attributes = {{"theta", kReal}, {"inverse", kBoolean, kOptional}},
       .infer = infer_rope,
       .work = elementwise_pass<3>,
       .signatures = rope_rows,
       .gradient = rope_gradient,
       .needs_offsets = true,
       .examples = [] {
         return std::vector<OperatorExample>{
             {.inputs = {f64({2, 5, 3, 4})}, .attributes = {{"theta", 100.0}}},
             {.inputs = {f64({2, 5, 3, 4})}, .attributes = {{"theta", 100.0}, {"inverse", true}}}};
       }});
}

}  // namespace sextant
