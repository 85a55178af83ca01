// Looking up by index: gather and its gradient scatter_add (a list of indices shared by all rows),
// take_along_dim and its gradient add_along_dim (an index per element), one_hot. `embedding` is
// gather along dim 0 of a table with two dims, kept for its name in models.
//
// k: a dim of the indices; d: a dim of x other than the one looked up; dim: that one. d' and dim +
// k are where they are found in y. | kind | in | out | |
// |---|---|---|---|
// | gather(x, indices) | B, B | B | |
// |  | S(d), B | S(d') | |
// |  | B, S(k) | S(dim + k) | |
// |  | S(dim), B | P(sum) | each index is served by one shard, the others add 0 |
// |  | P, B | P | any reduction: the same elements on every device |
// | scatter_add(u, indices) | B, B | B | |
// |  | S(d'), B | S(d) | |
// |  | S(dim + k), S(k) | P(sum) | |
// |  | B, B | S(dim) | a shard takes the indices that are its own |
// |  | P(sum), B | P(sum) | linear in u |
// | take_along_dim(x, indices) | B, B | B | |
// |  | S(d), S(d) | S(d) | |
// |  | B, S(dim) | S(dim) | |
// |  | S(dim), B | P(sum) | |
// |  | P, B | P | |
// | add_along_dim(u, indices) | B, B | B | |
// |  | S(d), S(d) | S(d) | |
// |  | S(dim), S(dim) | P(sum) | |
// |  | B, B | S(dim) | |
// |  | P(sum), B | P(sum) | |
// | one_hot(indices) | B | B | |
// |  | S(k) | S(k) | |
// |  | B | S(last) | |
//
// An index outside [0, extent) is served by no shard: it gives zeros and its gradient is dropped,
// whole or split, on every device alike. Negative indices are not counted from the end. A file says
// with `ignore_index` of its input which one it means by that (core/files/id_ranges.h).
#include "core/base/check.h"
#include "core/graphs/logical_graph.h"
#include "core/graphs/operator.h"
#include "core/operators/families.h"
#include "core/operators/rules.h"

#include <utility>

namespace sextant {
namespace {

using Integers = std::vector<std::int64_t>;

Sbp split(std::size_t dim) { return Sbp::split(dim); }

std::size_t dim_of(const Attributes& attributes) {
  return static_cast<std::size_t>(attributes.integer("dim"));
}

Work gather_work(Types inputs, Types outputs, const Attributes&) {
  return {.flops = 0,
          .read = size_of(inputs[1]) + size_of(outputs[0]),
          .written = size_of(outputs[0]),
          .kernel = "embedding"};
}

Work scatter_work(Types inputs, Types outputs, const Attributes&) {
  return elementwise_work(inputs, outputs, 1, "embedding");
}

std::int64_t target_extent(std::string_view kind, const Attributes& attributes) {
  const std::int64_t extent = attributes.integer("extent");
  require(extent >= 0, ErrorCode::kBadInput, "{}: extent {}, wanted no negative number", kind,
          extent);
  return extent;
}

// Dim `dim` of `shape` replaced by several.
Shape with_dims(const Shape& shape, std::size_t dim, std::size_t replaced, const Shape& by) {
  const Integers& extents = shape.extents();
  const auto at = extents.begin() + static_cast<std::ptrdiff_t>(dim);
  Integers result(extents.begin(), at);
  result.insert(result.end(), by.extents().begin(), by.extents().end());
  result.insert(result.end(), at + static_cast<std::ptrdiff_t>(replaced), extents.end());
  return Shape(std::move(result));
}

void require_index_dim(std::string_view kind, const TensorType& type, const Attributes& attributes,
                       std::size_t dims_after) {
  const std::int64_t dim = attributes.integer("dim");
  require(dim >= 0 && static_cast<std::size_t>(dim) + dims_after <= type.shape.rank(),
          ErrorCode::kBadInput, "{}: {} dims from dim {} on are not dims of {}", kind, dims_after,
          dim, to_text(type));
}

// Gather

std::vector<TensorType> infer_gather(Types inputs, const Attributes& attributes) {
  const TensorType &x = inputs[0], &indices = inputs[1];
  const std::size_t dim = dim_attribute("gather", x, attributes);
  require_integer("gather", "indices", indices);
  return {{.shape = with_dims(x.shape, dim, 1, indices.shape), .dtype = x.dtype}};
}

// The split dims of x other than `dim`, and where they are in y.
std::vector<std::pair<Sbp, Sbp>> kept_dims(const Shape& x, const Shape& indices, std::size_t dim) {
  std::vector<std::pair<Sbp, Sbp>> kept;
  for (std::size_t d = 0; d < x.rank(); ++d)
    if (d != dim) kept.emplace_back(split(d), split(d < dim ? d : d + indices.rank() - 1));
  return kept;
}

Rows gather_rows(Types inputs, Types, const Attributes& attributes) {
  const std::size_t dim = dim_of(attributes);
  const Shape &x = inputs[0].shape, &indices = inputs[1].shape;
  Rows rows{all_broadcast(2, 1)};
  for (const auto& [in_x, in_y] : kept_dims(x, indices, dim))
    rows.push_back({{in_x, kBroadcast}, {in_y}});
  for (std::size_t k = 0; k < indices.rank(); ++k)
    rows.push_back({{kBroadcast, split(k)}, {split(dim + k)}});
  rows.push_back({{split(dim), kBroadcast}, {kPartialSum}});
  for (const Sbp partial : {kPartialSum, kPartialMax, kPartialMin})
    rows.push_back({{partial, kBroadcast}, {partial}});
  return rows;
}

// The gradient of look-ups that `kind` gives: as long as x along its dim.
void look_up_gradient(GradientContext& context, const char* kind) {
  if (!context.wants(0)) return;
  const std::int64_t dim = context.op().attributes.integer("dim");
  const Shape& x = context.graph().tensor(context.input(0)).type.shape;
  const std::int64_t extent = x[static_cast<std::size_t>(dim)];
  context.set_input_gradient(
      0, context.add(kind, {*context.output_gradient(0), context.input(1)},
                     {{"dim", dim}, {"extent", extent}, {"out_dtype", gradient_dtype(context, 0)}},
                     0));
}

void gather_gradient(GradientContext& context) { look_up_gradient(context, "scatter_add"); }

std::vector<OperatorExample> gather_examples() {
  return {{.inputs = {f64({2, 5, 3}), i32({2, 3})},
           .attributes = {{"dim", std::int64_t{1}}},
           .ranges = {{-3, 3}, {-1, 5}}},
          {.inputs = {f64({5, 3}), i32({})},
           .attributes = {{"dim", std::int64_t{0}}},
           .ranges = {{-3, 3}, {0, 4}}},
          {.inputs = {f64({2, 3}), i32({7})},
           .attributes = {{"dim", std::int64_t{1}}},
           .ranges = {{-3, 3}, {0, 2}}}};
}

// Scatter_add

std::vector<TensorType> infer_scatter_add(Types inputs, const Attributes& attributes) {
  const TensorType &u = inputs[0], &indices = inputs[1];
  require_floating("scatter_add", "u", u);
  require_integer("scatter_add", "indices", indices);
  require_index_dim("scatter_add", u, attributes, indices.shape.rank());
  const std::size_t dim = dim_of(attributes);
  for (std::size_t k = 0; k < indices.shape.rank(); ++k)
    require(
        u.shape[dim + k] == indices.shape[k], ErrorCode::kBadInput,
        "scatter_add: u is {} and indices is {}: wanted the dims of indices from dim {} of u on",
        to_text(u), to_text(indices), dim);
  const Shape shape = with_dims(u.shape, dim, indices.shape.rank(),
                                Shape({target_extent("scatter_add", attributes)}));
  return {{.shape = shape, .dtype = dtype_or(attributes, "out_dtype", accumulator_type(u.dtype))}};
}

Rows scatter_add_rows(Types inputs, Types outputs, const Attributes& attributes) {
  const std::size_t dim = dim_of(attributes);
  const Shape& indices = inputs[1].shape;
  Rows rows{all_broadcast(2, 1)};
  for (const auto& [in_y, in_u] : kept_dims(outputs[0].shape, indices, dim))
    rows.push_back({{in_u, kBroadcast}, {in_y}});
  for (std::size_t k = 0; k < indices.rank(); ++k)
    rows.push_back({{split(dim + k), split(k)}, {kPartialSum}});
  rows.push_back({{kBroadcast, kBroadcast}, {split(dim)}});
  rows.push_back({{kPartialSum, kBroadcast}, {kPartialSum}});
  return rows;
}

void scatter_add_gradient(GradientContext& context) {
  if (!context.wants(0)) return;
  context.set_input_gradient(0,
                             context.add("gather", {*context.output_gradient(0), context.input(1)},
                                         {{"dim", context.op().attributes.integer("dim")}}, 0));
}

std::vector<OperatorExample> scatter_add_examples() {
  return {{.inputs = {f64({2, 2, 5, 3}), i32({2, 5})},
           .attributes = {{"dim", std::int64_t{1}}, {"extent", std::int64_t{7}}},
           .ranges = {{-3, 3}, {-1, 7}}},
          {.inputs = {f64({5, 2}), i32({5})},
           .attributes = {{"dim", std::int64_t{0}}, {"extent", std::int64_t{4}}},
           .ranges = {{-3, 3}, {0, 3}}}};
}

// Take_along_dim

void require_indices_beside(std::string_view kind, const TensorType& x, const TensorType& indices,
                            std::size_t dim) {
  require_integer(kind, "indices", indices);
  const bool fits = indices.shape.rank() == x.shape.rank() &&
                    indices.shape.with_extent(dim, x.shape[dim]) == x.shape;
  require(fits, ErrorCode::kBadInput,
          "{}: x is {} and indices is {}: wanted equal extents in all dims but {}", kind,
          to_text(x), to_text(indices), dim);
}

std::vector<TensorType> infer_take_along_dim(Types inputs, const Attributes& attributes) {
  const TensorType &x = inputs[0], &indices = inputs[1];
  const std::size_t dim = dim_attribute("take_along_dim", x, attributes);
  require_indices_beside("take_along_dim", x, indices, dim);
  return {{.shape = indices.shape, .dtype = x.dtype}};
}

Rows take_along_dim_rows(Types inputs, Types, const Attributes& attributes) {
  const std::size_t dim = dim_of(attributes);
  Rows rows{all_broadcast(2, 1)};
  for (std::size_t d = 0; d < inputs[0].shape.rank(); ++d)
    rows.push_back({{d == dim ? kBroadcast : split(d), split(d)}, {split(d)}});
  rows.push_back({{split(dim), kBroadcast}, {kPartialSum}});
  for (const Sbp partial : {kPartialSum, kPartialMax, kPartialMin})
    rows.push_back({{partial, kBroadcast}, {partial}});
  return rows;
}

void take_along_dim_gradient(GradientContext& context) {
  look_up_gradient(context, "add_along_dim");
}

std::vector<OperatorExample> take_along_dim_examples() {
  return {{.inputs = {f64({3, 5, 2}), i32({3, 7, 2})},
           .attributes = {{"dim", std::int64_t{1}}},
           .ranges = {{-3, 3}, {-1, 5}}},
          {.inputs = {f64({5, 3}), i32({5, 1})},
           .attributes = {{"dim", std::int64_t{1}}},
           .ranges = {{-3, 3}, {0, 2}}}};
}

// Add_along_dim

std::vector<TensorType> infer_add_along_dim(Types inputs, const Attributes& attributes) {
  const TensorType &u = inputs[0], &indices = inputs[1];
  require_floating("add_along_dim", "u", u);
  const std::size_t dim = dim_attribute("add_along_dim", u, attributes);
  require_integer("add_along_dim", "indices", indices);
  require_shape("add_along_dim", "indices", indices, u.shape);
  return {{.shape = u.shape.with_extent(dim, target_extent("add_along_dim", attributes)),
           .dtype = dtype_or(attributes, "out_dtype", accumulator_type(u.dtype))}};
}

Rows add_along_dim_rows(Types inputs, Types, const Attributes& attributes) {
  const std::size_t dim = dim_of(attributes);
  Rows rows{all_broadcast(2, 1)};
  for (std::size_t d = 0; d < inputs[0].shape.rank(); ++d)
    rows.push_back({{split(d), split(d)}, {d == dim ? kPartialSum : split(d)}});
  rows.push_back({{kBroadcast, kBroadcast}, {split(dim)}});
  rows.push_back({{kPartialSum, kBroadcast}, {kPartialSum}});
  return rows;
}

void add_along_dim_gradient(GradientContext& context) {
  if (!context.wants(0)) return;
  context.set_input_gradient(
      0, context.add("take_along_dim", {*context.output_gradient(0), context.input(1)},
                     {{"dim", context.op().attributes.integer("dim")}}, 0));
}

std::vector<OperatorExample> add_along_dim_examples() {
  return {{.inputs = {f64({3, 5, 2}), i32({3, 5, 2})},
           .attributes = {{"dim", std::int64_t{1}}, {"extent", std::int64_t{7}}},
           .ranges = {{-3, 3}, {-1, 7}}},
          {.inputs = {f64({5, 3}), i32({5, 3})},
           .attributes = {{"dim", std::int64_t{0}}, {"extent", std::int64_t{4}}},
           .ranges = {{-3, 3}, {0, 3}}}};
}

// One_hot

std::vector<TensorType> infer_one_hot(Types inputs, const Attributes& attributes) {
  require_integer("one_hot", "indices", inputs[0]);
  const Shape classes({target_extent("one_hot", attributes)});
  return {{.shape = with_dims(inputs[0].shape, inputs[0].shape.rank(), 0, classes),
           .dtype = dtype_attribute(attributes, "dtype")}};
}

Rows one_hot_rows(Types inputs, Types, const Attributes&) {
  const std::size_t rank = inputs[0].shape.rank();
  Rows rows{all_broadcast(1, 1)};
  for (std::size_t k = 0; k < rank; ++k) rows.push_back({{split(k)}, {split(k)}});
  rows.push_back({{kBroadcast}, {split(rank)}});
  return rows;
}

std::vector<OperatorExample> one_hot_examples() {
  return {{.inputs = {i32({2, 5})},
           .attributes = {{"extent", std::int64_t{7}}, {"dtype", "f64"}},
           .ranges = {{-1, 7}}}};
}

std::int64_t extent_of_x(Types inputs, const Attributes& attributes) {
  return inputs[0].shape[dim_of(attributes)];
}

std::int64_t extent_told(Types, const Attributes& attributes) {
  return attributes.integer("extent");
}

IdInput index_input(std::size_t input, std::int64_t (*extent)(Types, const Attributes&)) {
  return {.input = input,
          .of = "places along the dim",
          .count = extent,
          .outside = IdInput::Outside::kAny};
}

}  // namespace

void add_index(OperatorRegistry& registry) {
  registry.add({.kind = "gather",
                .min_inputs = 2,
                .max_inputs = 2,
                .attributes = {{"dim", kInteger}},
                .infer = infer_gather,
                .work = gather_work,
                .signatures = gather_rows,
                .gradient = gather_gradient,
                .needs_offsets = true,
                .ids = index_input(1, extent_of_x),
                .examples = gather_examples});
  registry.add(
      {.kind = "scatter_add",
       .min_inputs = 2,
       .max_inputs = 2,
       .attributes = {{"dim", kInteger}, {"extent", kInteger}, {"out_dtype", kText, kOptional}},
       .infer = infer_scatter_add,
       .work = scatter_work,
       .signatures = scatter_add_rows,
       .gradient = scatter_add_gradient,
       .needs_offsets = true,
       .ids = index_input(1, extent_told),
       .examples = scatter_add_examples});
  registry.add({.kind = "take_along_dim",
                .min_inputs = 2,
                .max_inputs = 2,
                .attributes = {{"dim", kInteger}},
                .infer = infer_take_along_dim,
                .work = gather_work,
                .signatures = take_along_dim_rows,
                .gradient = take_along_dim_gradient,
                .needs_offsets = true,
                .ids = index_input(1, extent_of_x),
                .examples = take_along_dim_examples});
  registry.add(
      {.kind = "add_along_dim",
       .min_inputs = 2,
       .max_inputs = 2,
       .attributes = {{"dim", kInteger}, {"extent", kInteger}, {"out_dtype", kText, kOptional}},
       .infer = infer_add_along_dim,
       .work = scatter_work,
       .signatures = add_along_dim_rows,
       .gradient = add_along_dim_gradient,
       .needs_offsets = true,
       .ids = index_input(1, extent_told),
       .examples = add_along_dim_examples});
  registry.add({.kind = "one_hot",
                .attributes = {{"extent", kInteger}, {"dtype", kText}},
                .infer = infer_one_hot,
                .work = copy_work,
                .signatures = one_hot_rows,
                .needs_offsets = true,
                .ids = index_input(0, extent_told),
                .examples = one_hot_examples});
}

}  // namespace sextant
