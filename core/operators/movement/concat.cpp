// Cutting and joining along one dim: slice and its gradient pad, split and its gradient concat.
//
// d: any dim but the one that is cut, dim: that one. Every operand of a side has the same word.
// | kind | in | out | |
// |---|---|---|---|
// | slice, split | B | B | |
// |  | S(d) | S(d) | |
// |  | S(dim) | P(sum) | each shard places what it has of the part, zeros elsewhere |
// |  | P | P | any reduction |
// | pad, concat | B | B | |
// |  | S(d) | S(d) | |
// |  | S(dim) | P(sum) | the sum runs over the axes that split, no others |
// |  | P | P | any reduction: the maximum of the zeros of pad is zero |
//
// A balanced split of the whole does not cut a part of it at balanced places, so S(dim) -> S(dim)
// is a row only where nothing is cut off or added. S(dim) of some inputs of concat beside P(sum) of
// others follows from P: a split becomes partial for nothing.
#include "core/base/check.h"
#include "core/graphs/logical_graph.h"
#include "core/graphs/operator.h"
#include "core/operators/families.h"
#include "core/operators/rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

namespace sextant {
namespace {

using Integers = std::vector<std::int64_t>;

// The longest operand along a dim.
std::int64_t longest(Types types, std::size_t dim) {
  std::int64_t extent = 0;
  for (const TensorType& type : types) extent = std::max(extent, type.shape[dim]);
  return extent;
}

Rows cut_rows(Types inputs, Types outputs, const Attributes& attributes) {
  const auto dim = static_cast<std::size_t>(attributes.integer("dim"));
  // Nothing is cut off: besides empty operands there is one on each side, the same.
  const bool is_whole = longest(inputs, dim) == longest(outputs, dim);
  Rows rows{all_broadcast(inputs.size(), outputs.size())};
  for (std::size_t d = 0; d < inputs[0].shape.rank(); ++d) {
    const Sbp out = d == dim && !is_whole ? kPartialSum : Sbp::split(d);
    rows.push_back(
        {std::vector<Sbp>(inputs.size(), Sbp::split(d)), std::vector<Sbp>(outputs.size(), out)});
  }
  append_partial_rows(rows, inputs.size(), outputs.size());
  return rows;
}

// Slice

std::vector<TensorType> infer_slice(Types inputs, const Attributes& attributes) {
  const TensorType& x = inputs[0];
  const std::size_t dim = dim_attribute("slice", x, attributes);
  const std::int64_t start = attributes.integer("start"), stop = attributes.integer("stop");
  require(0 <= start && start <= stop && stop <= x.shape[dim], ErrorCode::kBadInput,
          "slice: [{}, {}) does not lie in dim {} of {}", start, stop, dim, to_text(x));
  return {{.shape = x.shape.with_extent(dim, stop - start), .dtype = x.dtype}};
}

// Reads what it keeps, a shard of the cut dim no more than it has.
Work slice_work(Types inputs, Types outputs, const Attributes&) {
  Work work = streaming_work(inputs, outputs, 0, "copy");
  work.read = std::min(work.read, work.written);
  return work;
}

void slice_gradient(GradientContext& context) {
  const Attributes& attributes = context.op().attributes;
  const std::int64_t dim = attributes.integer("dim"), stop = attributes.integer("stop");
  const Shape x = context.graph().tensor(context.input(0)).type.shape;
  context.set_input_gradient(0, context.add("pad", {*context.output_gradient(0)},
                                            {{"dim", dim},
                                             {"before", attributes.integer("start")},
                                             {"after", x[static_cast<std::size_t>(dim)] - stop}},
                                            0));
}

std::vector<OperatorExample> slice_examples() {
  const auto example = [](Shape x, std::int64_t dim, std::int64_t start, std::int64_t stop) {
    return OperatorExample{.inputs = {f64(std::move(x))},
                           .attributes = {{"dim", dim}, {"start", start}, {"stop", stop}}};
  };
  return {example({5, 3}, 0, 1, 4), example({3, 4, 5}, 0, 1, 2), example({2, 7}, 1, 0, 6),
          example({4, 5}, 0, 2, 2)};
}

// Pad

std::vector<TensorType> infer_pad(Types inputs, const Attributes& attributes) {
  const TensorType& x = inputs[0];
  const std::size_t dim = dim_attribute("pad", x, attributes);
  const std::int64_t before = attributes.integer("before"), after = attributes.integer("after");
  require(before >= 0 && after >= 0, ErrorCode::kBadInput,
          "pad: {} before and {} after, wanted no negative numbers", before, after);
  return {{.shape = x.shape.with_extent(dim, before + x.shape[dim] + after), .dtype = x.dtype}};
}

void pad_gradient(GradientContext& context) {
  const Attributes& attributes = context.op().attributes;
  const std::int64_t dim = attributes.integer("dim"), before = attributes.integer("before");
  const Shape x = context.graph().tensor(context.input(0)).type.shape;
  context.set_input_gradient(
      0, context.add(
             "slice", {*context.output_gradient(0)},
             {{"dim", dim}, {"start", before}, {"stop", before + x[static_cast<std::size_t>(dim)]}},
             0));
}

std::vector<OperatorExample> pad_examples() {
  const auto example = [](Shape x, std::int64_t dim, std::int64_t before, std::int64_t after) {
    return OperatorExample{.inputs = {f64(std::move(x))},
                           .attributes = {{"dim", dim}, {"before", before}, {"after", after}}};
  };
  return {example({5, 3}, 1, 1, 2), example({5, 3}, 0, 0, 2), example({2, 4, 3}, 1, 3, 0)};
}

// Split

const Integers& part_extents(std::string_view kind, const Attributes& attributes) {
  const Integers& extents = attributes.integers("extents");
  require(!extents.empty() && std::all_of(extents.begin(), extents.end(),
                                          [](std::int64_t extent) { return extent >= 0; }),
          ErrorCode::kBadInput, "{}: extents [{}], wanted one per part and none negative", kind,
          fmt::join(extents, ", "));
  return extents;
}

std::int64_t total(const Integers& extents) {
  return std::accumulate(extents.begin(), extents.end(), std::int64_t{0});
}

std::vector<TensorType> infer_split(Types inputs, const Attributes& attributes) {
  const TensorType& x = inputs[0];
  const std::size_t dim = dim_attribute("split", x, attributes);
  const Integers& extents = part_extents("split", attributes);
  require(total(extents) == x.shape[dim], ErrorCode::kBadInput,
          "split: parts of [{}] are {} in all, dim {} of {} has {}", fmt::join(extents, ", "),
          total(extents), dim, to_text(x), x.shape[dim]);
  std::vector<TensorType> parts;
  for (const std::int64_t extent : extents)
    parts.push_back({.shape = x.shape.with_extent(dim, extent), .dtype = x.dtype});
  return parts;
}

// The widest element type among the gradients that arrived: parts of a weight may have several.
DType widest_gradient(GradientContext& context) {
  std::optional<DType> widest;
  for (std::size_t i = 0; i < context.op().outputs.size(); ++i) {
    if (!context.output_gradient(i)) continue;
    const DType dtype = context.graph().tensor(*context.output_gradient(i)).type.dtype;
    if (!widest || size_of(*widest) < size_of(dtype)) widest = dtype;
  }
  return *widest;
}

// Gradient of a part in this type: zeros where none arrived.
TensorId part_gradient(GradientContext& context, std::size_t part, DType dtype) {
  const std::string text(to_string(dtype));
  const std::optional<TensorId> arrived = context.output_gradient(part);
  if (!arrived) {
    const Shape shape = context.graph().tensor(context.output(part)).type.shape;
    return context.add("constant", {},
                       {{"shape", shape.extents()}, {"dtype", text}, {"value", 0.0}}, 0);
  }
  if (context.graph().tensor(*arrived).type.dtype == dtype) return *arrived;
  return context.add("cast", {*arrived}, {{"dtype", text}}, 0);
}

void split_gradient(GradientContext& context) {
  const DType dtype = widest_gradient(context);
  std::vector<TensorId> parts;
  for (std::size_t i = 0; i < context.op().outputs.size(); ++i)
    parts.push_back(part_gradient(context, i, dtype));
  context.set_input_gradient(0, context.add("concat", parts, context.op().attributes, 0));
}

std::vector<OperatorExample> split_examples() {
  const auto example = [](Shape x, std::int64_t dim, Integers extents) {
    return OperatorExample{.inputs = {f64(std::move(x))},
                           .attributes = {{"dim", dim}, {"extents", std::move(extents)}}};
  };
  return {example({5, 3}, 0, {2, 3}), example({3, 7, 2}, 1, {4, 1, 2}), example({5}, 0, {5, 0})};
}

// Concat

std::vector<TensorType> infer_concat(Types inputs, const Attributes& attributes) {
  const TensorType& first = inputs[0];
  const std::size_t dim = dim_attribute("concat", first, attributes);
  const Integers& extents = part_extents("concat", attributes);
  require(extents.size() == inputs.size(), ErrorCode::kBadInput,
          "concat: {} inputs and extents [{}], wanted one extent per input", inputs.size(),
          fmt::join(extents, ", "));
  for (std::size_t i = 0; i < inputs.size(); ++i)
    require_type("concat", fmt::format("input {}", i), inputs[i],
                 {.shape = first.shape.with_extent(dim, extents[i]), .dtype = first.dtype});
  return {{.shape = first.shape.with_extent(dim, total(extents)), .dtype = first.dtype}};
}

void concat_gradient(GradientContext& context) {
  const Attributes attributes = context.op().attributes;
  const Integers& extents = attributes.integers("extents");
  std::int64_t start = 0;
  for (std::size_t i = 0; i < extents.size(); start += extents[i++])
    if (context.wants(i))
      context.set_input_gradient(i, context.add("slice", {*context.output_gradient(0)},
                                                {{"dim", attributes.integer("dim")},
                                                 {"start", start},
                                                 {"stop", start + extents[i]}},
                                                i));
}

std::vector<OperatorExample> concat_examples() {
  const auto example = [](std::vector<TensorType> inputs, std::int64_t dim, Integers extents) {
    return OperatorExample{.inputs = std::move(inputs),
                           .attributes = {{"dim", dim}, {"extents", std::move(extents)}}};
  };
  return {example({f64({2, 3}), f64({5, 3})}, 0, {2, 5}),
          example({f64({2, 3, 2}), f64({2, 1, 2}), f64({2, 4, 2})}, 1, {3, 1, 4}),
          example({f64({5}), f64({0})}, 0, {5, 0}), example({f64({5, 3})}, 1, {3})};
}

}  // namespace

void add_concat(OperatorRegistry& registry) {
  registry.add({.kind = "slice",
                .attributes = {{"dim", kInteger}, {"start", kInteger}, {"stop", kInteger}},
                .infer = infer_slice,
                .work = slice_work,
                .signatures = cut_rows,
                .gradient = slice_gradient,
                .needs_offsets = true,
                .examples = slice_examples});
  registry.add({.kind = "pad",
                .attributes = {{"dim", kInteger}, {"before", kInteger}, {"after", kInteger}},
                .infer = infer_pad,
                .work = copy_work,
                .signatures = cut_rows,
                .gradient = pad_gradient,
                .needs_offsets = true,
                .examples = pad_examples});
  registry.add({.kind = "split",
                .attributes = {{"dim", kInteger}, {"extents", kIntegers}},
                .infer = infer_split,
                .work = copy_work,
                .signatures = cut_rows,
                .gradient = split_gradient,
                .needs_offsets = true,
                .examples = split_examples});
  registry.add({.kind = "concat",
                .min_inputs = 1,
                .max_inputs = 256,
                .attributes = {{"dim", kInteger}, {"extents", kIntegers}},
                .infer = infer_concat,
                .work = copy_work,
                .signatures = cut_rows,
                .gradient = concat_gradient,
                .needs_offsets = true,
                .examples = concat_examples});
}

}  // namespace sextant
