// The norms of normalization.cpp, wired from their pieces. Counts are those of the global tensor.
#include "core/operators/layers/norm_builders.h"

#include "core/base/check.h"
#include "core/operators/reductions/block_builder.h"
#include "core/operators/reductions/reduced_dims.h"
#include "core/operators/rules.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace sextant {
namespace {

using Integers = std::vector<std::int64_t>;

Attributes scaling(double factor) { return {{"factor", factor}}; }

bool is_zero_in(DType dtype, double epsilon) {
  return dtype == DType::kF64 ? epsilon == 0 : static_cast<float>(epsilon) == 0;
}

// 1 / sqrt(variance + epsilon), 0 where that sum is 0, as in the fused norms: only without an
// epsilon it may be, and then constant rows would become 0 times infinity.
TensorId add_rstd(BlockBuilder& block, TensorId variance, double epsilon) {
  const TensorId shifted =
      block.add("add_scalar", "variance_epsilon", {variance}, {{"value", epsilon}});
  if (!is_zero_in(block.type(shifted).dtype, epsilon)) return block.add("rsqrt", "rstd", {shifted});
  const TensorId zero = block.add("clamp", "zero", {shifted}, {{"min", 0.0}, {"max", 0.0}});
  const TensorId varies = block.add("not_equal", "varies", {shifted, zero});
  return block.add("where", "rstd", {varies, block.add("rsqrt", "root", {shifted}), zero});
}

Attributes reduction(const TensorType& x, const Integers& dims) {
  return {{"dims", dims}, {"out_dtype", std::string(to_string(accumulator_type(x.dtype)))}};
}

std::int64_t count_of(const TensorType& x, const Integers& dims) {
  return ReducedDims("norm", {{"dims", dims}}, x.shape.rank()).count(x.shape);
}

struct Centred {
  TensorId mean, squares;  // the squares are those of x - mean, summed
};
Centred add_centred(BlockBuilder& block, TensorId x, const Integers& dims) {
  const TensorId mean = block.add("reduce_mean", "mean", {x}, reduction(block.type(x), dims));
  return {.mean = mean,
          .squares = block.add("reduce_squares", "squares", {x, mean}, {{"dims", dims}})};
}

Attributes norm_attributes(Integers dims, Integers weight_dims, std::string statistics) {
  return {{"dims", std::move(dims)},
          {"weight_dims", std::move(weight_dims)},
          {"statistics", std::move(statistics)}};
}

// Elements of a last dim; a norm over nothing has no elements, so any number does.
double last_count(const TensorType& x) {
  require_min_rank("norm", "x", x, 1);
  return static_cast<double>(std::max<std::int64_t>(1, last_extent(x.shape)));
}

Integers all_but_channels(std::string_view name, const TensorType& x) {
  require_min_rank(name, "x", x, 2);
  Integers dims{0};
  for (std::size_t dim = 2; dim < x.shape.rank(); ++dim)
    dims.push_back(static_cast<std::int64_t>(dim));
  return dims;
}

}  // namespace

TensorId layer_norm_in_pieces(LogicalGraph& graph, TensorId x, const NormParameters& parameters,
                              const std::string& name, int layer) {
  BlockBuilder block(graph, name, layer);
  const double count = last_count(block.type(x));
  const Integers last{static_cast<std::int64_t>(block.type(x).shape.rank()) - 1};
  const auto [mean, squares] = add_centred(block, x, last);
  const TensorId variance = block.add("scale", "variance", {squares}, scaling(1 / count));
  return block.add(
      "normalize", "",
      {x, mean, add_rstd(block, variance, parameters.epsilon), parameters.gamma, parameters.beta},
      norm_attributes(last, last, "of_x"));
}

TensorId rms_norm_in_pieces(LogicalGraph& graph, TensorId x, const NormParameters& parameters,
                            const std::string& name, int layer) {
  BlockBuilder block(graph, name, layer);
  const double count = last_count(block.type(x));
  const Integers last{static_cast<std::int64_t>(block.type(x).shape.rank()) - 1};
  const TensorId squares = block.add("reduce_squares", "squares", {x}, {{"dims", last}});
  const TensorId mean_square = block.add("scale", "mean_square", {squares}, scaling(1 / count));
  return block.add("normalize", "",
                   {x, add_rstd(block, mean_square, parameters.epsilon), parameters.gamma},
                   norm_attributes(last, last, "of_x"));
}

BatchNorm batch_norm(LogicalGraph& graph, TensorId x, const NormParameters& parameters,
                     const std::string& name, int layer) {
  BlockBuilder block(graph, name, layer);
  const TensorType type = block.type(x);
  const Integers dims = all_but_channels(name, type);
  const std::int64_t count = count_of(type, dims);
  require(count >= 2, ErrorCode::kBadInput,
          "{}: x is {}, which has {} values per channel, wanted at least 2", name, to_text(type),
          count);
  const auto [mean, squares] = add_centred(block, x, dims);
  const auto n = static_cast<double>(count);
  const TensorId biased = block.add("scale", "variance", {squares}, scaling(1 / n));
  const TensorId y = block.add(
      "normalize", "",
      {x, mean, add_rstd(block, biased, parameters.epsilon), parameters.gamma, parameters.beta},
      norm_attributes(dims, {1}, "of_x"));
  return {.y = y,
          .mean = mean,
          .variance = block.add("scale", "unbiased", {squares}, scaling(1 / (n - 1)))};
}

TensorId running_average(LogicalGraph& graph, TensorId running, TensorId batch, double momentum,
                         const std::string& name, int layer) {
  BlockBuilder block(graph, name, layer);
  const TensorId old_share = block.add("scale", "old", {running}, scaling(1 - momentum));
  const TensorId new_share = block.add("scale", "new", {batch}, scaling(momentum));
  return block.add("add", "", {old_share, new_share});
}

TensorId batch_norm_given(LogicalGraph& graph, TensorId x, TensorId mean, TensorId variance,
                          const NormParameters& parameters, const std::string& name, int layer) {
  BlockBuilder block(graph, name, layer);
  return block.add(
      "normalize", "",
      {x, mean, add_rstd(block, variance, parameters.epsilon), parameters.gamma, parameters.beta},
      norm_attributes(all_but_channels(name, block.type(x)), {1}, "given"));
}

}  // namespace sextant
