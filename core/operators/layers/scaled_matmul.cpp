// Products of 8-bit operands, both with the dims they are summed over last: the one form in which
// tensor cores of Hopper take them. What stands in the other order is a copy that `quantize` makes.
//
// y[..., n] = scale_a scale_b sum over the contracted dims of a[..., :] b[n, :]; d: a leading dim
// of a, c: a contracted dim of both:
// | a | b | y | |
// |---|---|---|---|
// | B | B | B | |
// | S(d) | B | S(d) | |
// | B | S(0) | S(last) | |
// | S(c) | S(c) | P(sum) | |
//
// Scales are B: a tensor has one, whatever the plan.
#include "core/base/check.h"
#include "core/graphs/operator.h"
#include "core/operators/families.h"
#include "core/operators/rules.h"

#include <algorithm>

namespace sextant {
namespace {

constexpr std::string_view kScaledMatmul = "scaled_matmul";

std::size_t contracted_dims(const Attributes& attributes) {
  const std::int64_t dims = attributes.integer_or("contracted", 1);
  require(dims >= 1, ErrorCode::kBadInput, "{}: contracted {}, wanted 1 or more", kScaledMatmul,
          dims);
  return static_cast<std::size_t>(dims);
}

void require_8_bits(std::string_view operand, const TensorType& type) {
  if (is_8_bit_floating(type.dtype)) return;
  fail(ErrorCode::kBadInput, "{}: {} is {}, wanted e4m3 or e5m2", kScaledMatmul, operand,
       to_text(type));
}

std::vector<TensorType> infer_scaled(Types inputs, const Attributes& attributes) {
  const TensorType &a = inputs[0], &b = inputs[1];
  const std::size_t contracted = contracted_dims(attributes);
  require_8_bits("a", a);
  require_8_bits("b", b);
  require(a.dtype == DType::kE4M3 || b.dtype == DType::kE4M3, ErrorCode::kBadInput,
          "{}: a is {} and b is {}: one must be e4m3, as tensor cores have it", kScaledMatmul,
          to_text(a), to_text(b));
  require_min_rank(kScaledMatmul, "a", a, contracted);
  require(b.shape.rank() == contracted + 1 &&
              trailing_dims(a.shape, contracted) == trailing_dims(b.shape, contracted),
          ErrorCode::kBadInput, "{}: a is {} and b is {}: wanted one dim and the last {} of a",
          kScaledMatmul, to_text(a), to_text(b), contracted);
  for (const std::size_t scale : {2, 3})
    require_type(kScaledMatmul, "a scale", inputs[scale], {.shape = Shape(), .dtype = DType::kF32});
  const DType dtype = dtype_attribute(attributes, "out_dtype");
  require(is_floating(dtype), ErrorCode::kBadInput, "{}: out_dtype {}, wanted a floating type",
          kScaledMatmul, to_string(dtype));
  std::vector<std::int64_t> extents = leading_dims(a.shape, contracted).extents();
  extents.push_back(b.shape[0]);
  return {{.shape = Shape(std::move(extents)), .dtype = dtype}};
}

Work scaled_work(Types inputs, Types outputs, const Attributes& attributes) {
  const std::size_t contracted = contracted_dims(attributes);
  const std::int64_t m = leading_dims(inputs[0].shape, contracted).elements();
  const std::int64_t k = trailing_dims(inputs[0].shape, contracted).elements();
  const std::int64_t n = inputs[1].shape[0];
  const Flops flops = 2.0 * static_cast<Flops>(m) * static_cast<Flops>(n) * static_cast<Flops>(k);
  return streaming_work(inputs, outputs, flops, fmt::format("{}:{}x{}x{}", kScaledMatmul, m, n, k));
}

Rows scaled_rows(Types inputs, Types outputs, const Attributes& attributes) {
  const std::size_t contracted = contracted_dims(attributes);
  const std::size_t leading = inputs[0].shape.rank() - contracted;
  const auto row = [](Sbp a, Sbp b, Sbp y) {
    return SbpSignature{{a, b, kBroadcast, kBroadcast}, {y}};
  };
  Rows rows{all_broadcast(4, 1)};
  for (std::size_t dim = 0; dim < leading; ++dim)
    rows.push_back(row(Sbp::split(dim), kBroadcast, Sbp::split(dim)));
  rows.push_back(row(kBroadcast, Sbp::split(0), Sbp::split(outputs[0].shape.rank() - 1)));
  for (std::size_t dim = 0; dim < contracted; ++dim)
    rows.push_back(row(Sbp::split(leading + dim), Sbp::split(1 + dim), kPartialSum));
  return rows;
}

std::vector<OperatorExample> scaled_examples() {
  const auto of = [](Shape shape, DType dtype) { return TensorType{std::move(shape), dtype}; };
  const TensorType scale = of(Shape(), DType::kF32);
  const std::vector<std::pair<std::int64_t, std::int64_t>> ranges = {
      {-3, 3}, {-3, 3}, {2, 2}, {1, 1}};
  return {{.inputs = {of({5, 3}, DType::kE4M3), of({7, 3}, DType::kE4M3), scale, scale},
           .attributes = {{"out_dtype", "f64"}},
           .ranges = ranges},
          {.inputs = {of({2, 5, 3}, DType::kE5M2), of({7, 3}, DType::kE4M3), scale, scale},
           .attributes = {{"out_dtype", "bf16"}},
           .ranges = ranges},
          {.inputs = {of({3, 2, 5}, DType::kE4M3), of({7, 2, 5}, DType::kE5M2), scale, scale},
           .attributes = {{"out_dtype", "f32"}, {"contracted", std::int64_t{2}}},
           .ranges = ranges}};
}

}  // namespace

void add_scaled_matmul(OperatorRegistry& registry) {
  registry.add({.kind = std::string(kScaledMatmul),
                .role = OperatorRole::kScaledProduct,
                .min_inputs = 4,
                .max_inputs = 4,
                .attributes = {{"out_dtype", kText}, {"contracted", kInteger, kOptional}},
                .infer = infer_scaled,
                .work = scaled_work,
                .signatures = scaled_rows,
                .examples = scaled_examples});
}

}  // namespace sextant
