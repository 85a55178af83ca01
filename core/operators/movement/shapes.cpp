// Operators that keep every element: reshape and transpose. Unsqueeze, squeeze and flatten are
// reshapes (rearrange.h).
//
// | kind | rows besides B |
// |---|---|
// | reshape | S(first dim of a group) -> S(first dim of that group); any P |
// | transpose | S(permutation[i]) -> S(i); any P |
//
// Reshape merges and splits groups of dims, the smallest runs of dims with equal products. A split
// of a later dim of a group would interleave. Where a group is one dim on both sides its row
// holds for any split. Elsewhere, first extents a != b: part k of p is the same elements on both
// sides for every k only if p divides a and b. (Where p divides one alone, one side is even and the
// other is not; where it divides neither, larger and smaller parts would have to match, which gives
// a = b.) So 6 rows over 4 parts cannot stay where they are when 1536 elements are split.
#include "core/base/check.h"
#include "core/graphs/logical_graph.h"
#include "core/graphs/operator.h"
#include "core/operators/families.h"
#include "core/operators/rules.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

namespace sextant {
namespace {

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

}  // namespace

void add_shapes(OperatorRegistry& registry) {
  registry.add({.kind = "reshape",
                .role = OperatorRole::kView,
                .attributes = {{"shape", kIntegers}},
                .infer = infer_reshape,
                .work = copy_work,
                .signatures = reshape_rows,
                .gradient = reshape_gradient,
                .examples = reshape_examples});
  registry.add({.kind = "transpose",
                .attributes = {{"permutation", kIntegers}},
                .infer = infer_transpose,
                .work = copy_work,
                .signatures = transpose_rows,
                .gradient = transpose_gradient,
                .examples = transpose_examples});
}

}  // namespace sextant
