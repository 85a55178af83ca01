// Operators that only move elements: reshape, transpose, slice and its gradient pad.
//
// | kind | rows besides B |
// |---|---|
// | reshape | S(first dim of a group) -> S(first dim of that group); any P |
// | transpose | S(permutation[i]) -> S(i); any P |
// | slice | S(any dim but the cut one); any P |
// | pad | S(any dim but the cut one); P(sum): its zeros are no neutral element of max |
//
// Reshape merges and splits groups of dims. A split of a later dim of a group would interleave
// (G07). Where a group is one dim on both sides its row holds for any split; elsewhere only over
// parts that divide both first extents, because an uneven split cuts between other elements (G08).
#include "core/check.h"
#include "core/logical_graph.h"
#include "core/operator.h"
#include "core/operators/families.h"
#include "core/operators/rules.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

namespace sextant {
namespace {

Work copy_work(Types inputs, Types outputs, const Attributes&) {
  return streaming_work(inputs, outputs, 0, "copy");
}

void append_partial_rows(Rows& rows) {
  for (const Sbp partial : {kPartialSum, kPartialMax, kPartialMin})
    rows.push_back({{partial}, {partial}});
}

// Reshape

std::vector<TensorType> infer_reshape(Types inputs, const Attributes& attributes) {
  Shape shape(attributes.integers("shape"));
  require(shape.elements() == inputs[0].shape.elements(), ErrorCode::kBadInput,
          "reshape: {} has {} elements, the wanted shape {} has {}", to_text(inputs[0]),
          inputs[0].shape.elements(), to_string(shape), shape.elements());
  return {{.shape = std::move(shape), .dtype = inputs[0].dtype}};
}

// Dims [begin, end) of one side of a group: the smallest runs of dims with equal products.
struct DimRun {
  std::size_t begin = 0, end = 0;
};

// First dim of a run that holds more than one element; the first dim if there is none.
std::size_t major_dim(const Shape& shape, DimRun run) {
  for (std::size_t dim = run.begin; dim < run.end; ++dim)
    if (shape[dim] != 1) return dim;
  return run.begin;
}

// The row that keeps a group split, if there is one.
std::optional<SbpSignature> group_row(const Shape& from, DimRun in, const Shape& to, DimRun out) {
  const std::size_t in_dim = major_dim(from, in), out_dim = major_dim(to, out);
  SbpSignature row{{Sbp::split(in_dim)}, {Sbp::split(out_dim)}};
  const std::int64_t common = std::gcd(from[in_dim], to[out_dim]);
  std::int64_t group = 1;
  for (std::size_t dim = in.begin; dim < in.end; ++dim) group *= from[dim];
  const bool is_one_dim = from[in_dim] == group && to[out_dim] == group;
  if (!is_one_dim && common == 1) return std::nullopt;
  row.divisible = is_one_dim ? 0 : common;
  return row;
}

std::vector<SbpSignature> split_rows(const Shape& from, const Shape& to) {
  std::vector<SbpSignature> rows;
  if (from.elements() == 0) return rows;  // nothing to split: groups have no meaning
  std::size_t i = 0, j = 0;
  while (i < from.rank() && j < to.rank()) {
    DimRun in{i, i + 1}, out{j, j + 1};
    std::int64_t in_product = from[i], out_product = to[j];
    while (in_product != out_product) {
      if (in_product < out_product) {
        in_product *= from[in.end++];
      } else {
        out_product *= to[out.end++];
      }
    }
    if (std::optional<SbpSignature> row = group_row(from, in, to, out))
      rows.push_back(std::move(*row));
    i = in.end;
    j = out.end;
  }
  return rows;
}

Rows reshape_rows(Types inputs, Types outputs, const Attributes&) {
  Rows rows{all_broadcast(1, 1)};
  for (SbpSignature& row : split_rows(inputs[0].shape, outputs[0].shape))
    rows.push_back(std::move(row));
  append_partial_rows(rows);
  return rows;
}

void reshape_gradient(GradientContext& context) {
  const Shape shape = context.graph().tensor(context.input(0)).type.shape;
  context.set_input_gradient(
      0, context.add("reshape", {*context.output_gradient(0)}, {{"shape", shape.extents()}}, 0));
}

// Transpose

std::vector<TensorType> infer_transpose(Types inputs, const Attributes& attributes) {
  const std::vector<std::int64_t>& permutation = attributes.integers("permutation");
  const std::size_t rank = inputs[0].shape.rank();
  std::vector<std::int64_t> extents, sorted = permutation, wanted(rank);
  std::sort(sorted.begin(), sorted.end());
  std::iota(wanted.begin(), wanted.end(), 0);
  require(sorted == wanted, ErrorCode::kBadInput,
          "transpose: the permutation does not name each of the {} dims of {} once", rank,
          to_text(inputs[0]));
  for (const std::int64_t dim : permutation)
    extents.push_back(inputs[0].shape[static_cast<std::size_t>(dim)]);
  return {{.shape = Shape(std::move(extents)), .dtype = inputs[0].dtype}};
}

Rows transpose_rows(Types, Types, const Attributes& attributes) {
  const std::vector<std::int64_t>& permutation = attributes.integers("permutation");
  Rows rows{all_broadcast(1, 1)};
  for (std::size_t dim = 0; dim < permutation.size(); ++dim)
    rows.push_back({{Sbp::split(static_cast<std::size_t>(permutation[dim]))}, {Sbp::split(dim)}});
  append_partial_rows(rows);
  return rows;
}

void transpose_gradient(GradientContext& context) {
  const std::vector<std::int64_t>& permutation = context.op().attributes.integers("permutation");
  std::vector<std::int64_t> inverse(permutation.size());
  for (std::size_t dim = 0; dim < permutation.size(); ++dim)
    inverse[static_cast<std::size_t>(permutation[dim])] = static_cast<std::int64_t>(dim);
  context.set_input_gradient(0, context.add("transpose", {*context.output_gradient(0)},
                                            {{"permutation", std::move(inverse)}}, 0));
}

// Slice and pad

// The dim that is cut, checked against the rank of x.
std::size_t cut_dim(std::string_view kind, const TensorType& x, const Attributes& attributes) {
  const std::int64_t dim = attributes.integer("dim");
  require(dim >= 0 && static_cast<std::size_t>(dim) < x.shape.rank(), ErrorCode::kBadInput,
          "{}: dim {} is not a dim of {}", kind, dim, to_text(x));
  return static_cast<std::size_t>(dim);
}

Rows uncut_rows(std::string_view kind, const TensorType& x, const Attributes& attributes) {
  const std::size_t cut = cut_dim(kind, x, attributes);
  Rows rows{all_broadcast(1, 1)};
  for (std::size_t dim = 0; dim < x.shape.rank(); ++dim)
    if (dim != cut) rows.push_back({{Sbp::split(dim)}, {Sbp::split(dim)}});
  return rows;
}

std::vector<TensorType> infer_slice(Types inputs, const Attributes& attributes) {
  const TensorType& x = inputs[0];
  const std::size_t dim = cut_dim("slice", x, attributes);
  const std::int64_t start = attributes.integer("start"), stop = attributes.integer("stop");
  require(0 <= start && start <= stop && stop <= x.shape[dim], ErrorCode::kBadInput,
          "slice: [{}, {}) does not lie in dim {} of {}", start, stop, dim, to_text(x));
  return {{.shape = x.shape.with_extent(dim, stop - start), .dtype = x.dtype}};
}

Work slice_work(Types, Types outputs, const Attributes&) {
  return streaming_work(outputs, outputs, 0, "copy");
}

Rows slice_rows(Types inputs, Types, const Attributes& attributes) {
  Rows rows = uncut_rows("slice", inputs[0], attributes);
  append_partial_rows(rows);
  return rows;
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

std::vector<TensorType> infer_pad(Types inputs, const Attributes& attributes) {
  const TensorType& x = inputs[0];
  const std::size_t dim = cut_dim("pad", x, attributes);
  const std::int64_t before = attributes.integer("before"), after = attributes.integer("after");
  require(before >= 0 && after >= 0, ErrorCode::kBadInput,
          "pad: {} before and {} after, wanted no negative numbers", before, after);
  return {{.shape = x.shape.with_extent(dim, before + x.shape[dim] + after), .dtype = x.dtype}};
}

Rows pad_rows(Types inputs, Types, const Attributes& attributes) {
  Rows rows = uncut_rows("pad", inputs[0], attributes);
  rows.push_back({{kPartialSum}, {kPartialSum}});
  return rows;
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

// Splitting dims, merging them, both, dims of one, and none of it.
std::vector<OperatorExample> reshape_examples() {
  const auto example = [](Shape from, std::vector<std::int64_t> to) {
    return OperatorExample{.inputs = {f64(std::move(from))},
                           .attributes = {{"shape", std::move(to)}}};
  };
  return {example({5, 12}, {5, 4, 3}), example({5, 4, 3}, {5, 12}),   example({6, 4}, {24}),
          example({6, 4}, {4, 6}),     example({1, 5, 1}, {5}),       example({5, 3}, {5, 1, 3}),
          example({3, 4, 5}, {12, 5}), example({2, 1, 6}, {1, 4, 3}), example({5, 0}, {0, 7})};
}

std::vector<OperatorExample> transpose_examples() {
  return {{.inputs = {f64({2, 3, 5})},
           .attributes = {{"permutation", std::vector<std::int64_t>{2, 0, 1}}}}};
}

std::vector<OperatorExample> slice_examples() {
  return {{.inputs = {f64({5, 3})},
           .attributes = {
               {"dim", std::int64_t{0}}, {"start", std::int64_t{1}}, {"stop", std::int64_t{4}}}}};
}

std::vector<OperatorExample> pad_examples() {
  return {{.inputs = {f64({5, 3})},
           .attributes = {
               {"dim", std::int64_t{1}}, {"before", std::int64_t{1}}, {"after", std::int64_t{2}}}}};
}

}  // namespace

void add_shapes(OperatorRegistry& registry) {
  registry.add({.kind = "reshape",
                .infer = infer_reshape,
                .work = copy_work,
                .signatures = reshape_rows,
                .gradient = reshape_gradient,
                .examples = reshape_examples});
  registry.add({.kind = "transpose",
                .infer = infer_transpose,
                .work = copy_work,
                .signatures = transpose_rows,
                .gradient = transpose_gradient,
                .examples = transpose_examples});
  registry.add({.kind = "slice",
                .infer = infer_slice,
                .work = slice_work,
                .signatures = slice_rows,
                .gradient = slice_gradient,
                .examples = slice_examples});
  registry.add({.kind = "pad",
                .infer = infer_pad,
                .work = copy_work,
                .signatures = pad_rows,
                .gradient = pad_gradient,
                .examples = pad_examples});
}

}  // namespace sextant
