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
#include "core/operators/layers/rotary_attributes.h"
#include "core/operators/rules.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

namespace sextant {
namespace {

void require_scaling(const Attributes& attributes) {
  const RotaryScaling scaling = rotary_scaling(attributes);
  require(std::isfinite(scaling.factor) && scaling.factor >= 1, ErrorCode::kBadInput,
          "rope: factor {}, wanted 1 or more", scaling.factor);
  constexpr std::array<const char*, 3> kOfLlama = {"original_length", "low_turns", "high_turns"};
  const auto has = [&](const char* name) { return attributes.contains(name); };
  if (std::none_of(kOfLlama.begin(), kOfLlama.end(), has)) return;
  require(std::all_of(kOfLlama.begin(), kOfLlama.end(), has) && has("factor"), ErrorCode::kBadInput,
          "rope: factor, original_length, low_turns and high_turns go together");
  require(scaling.original_length >= 1, ErrorCode::kBadInput,
          "rope: original_length {}, wanted 1 or more", scaling.original_length);
  require(scaling.low_turns > 0 && scaling.high_turns > scaling.low_turns &&
              std::isfinite(scaling.high_turns),
          ErrorCode::kBadInput, "rope: turns from {} to {}, wanted two positive numbers that grow",
          scaling.low_turns, scaling.high_turns);
}

std::vector<TensorType> infer_rope(Types inputs, const Attributes& attributes) {
  const TensorType& x = inputs[0];
  require_floating("rope", "x", x);
  require(x.shape.rank() == 4 && last_extent(x.shape) % 2 == 0, ErrorCode::kBadInput,
          "rope: x is {}, wanted [batch, sequence, heads, head size] with an even head size",
          to_text(x));
  require(attributes.real("theta") > 0, ErrorCode::kBadInput, "rope: theta {} is not positive",
          attributes.real("theta"));
  require_scaling(attributes);
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

RotaryScaling rotary_scaling(const Attributes& attributes) {
  return {.factor = attributes.real_or("factor", 1),
          .low_turns = attributes.real_or("low_turns", 0),
          .high_turns = attributes.real_or("high_turns", 0),
          .original_length = attributes.integer_or("original_length", 0)};
}

void add_scaling(const RotaryScaling& scaling, Attributes& attributes) {
  if (scaling.is_none()) return;
  attributes.set("factor", scaling.factor);
  if (scaling.original_length == 0) return;
  attributes.set("low_turns", scaling.low_turns);
  attributes.set("high_turns", scaling.high_turns);
  attributes.set("original_length", scaling.original_length);
}

void add_rope(OperatorRegistry& registry) {
  registry.add(
      {.kind = "rope",
       .attributes = {{"theta", kReal},
                      {"inverse", kBoolean, kOptional},
                      {"factor", kReal, kOptional},
                      {"low_turns", kReal, kOptional},
                      {"high_turns", kReal, kOptional},
                      {"original_length", kInteger, kOptional}},
       .infer = infer_rope,
       .work = elementwise_pass<3>,
       .signatures = rope_rows,
       .gradient = rope_gradient,
       .needs_offsets = true,
       .examples = [] {
         return std::vector<OperatorExample>{
             {.inputs = {f64({2, 5, 3, 4})}, .attributes = {{"theta", 100.0}}},
             {.inputs = {f64({2, 5, 3, 4})}, .attributes = {{"theta", 100.0}, {"inverse", true}}},
             {.inputs = {f64({2, 9, 3, 8})},
              .attributes = {{"theta", 100.0},
                             {"factor", 4.0},
                             {"low_turns", 0.5},
                             {"high_turns", 2.0},
                             {"original_length", std::int64_t{16}}}}};
       }});
}

}  // namespace sextant
