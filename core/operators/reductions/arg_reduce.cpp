// Argmax and argmin in pieces: the extremum of the whole dim (reduce_max, reduce_min), then the
// first global index where x equals it. A shard gives its first index, or the highest number where
// it has none; the least of them is the answer. Indices are never P(max) and never summed.
//
// d: a kept dim of x, d': its place in the result; r: the searched dim.
// | kind(operands) | words in | words out |
// |---|---|---|
// | first_index_of(x, value) | S(d), S(d') | S(d') |
// |  | S(r), B | P(min) |
//
// And all B. No gradient: an index does not change with small changes of x.
#include "core/operators/reductions/arg_reduce.h"

#include "core/base/check.h"
#include "core/graphs/operator.h"
#include "core/operators/families.h"
#include "core/operators/reductions/block_builder.h"
#include "core/operators/reductions/reduced_dims.h"
#include "core/operators/rules.h"

namespace sextant {
namespace {

constexpr std::string_view kKind = "first_index_of";

ReducedDims searched(Types inputs, const Attributes& attributes) {
  const std::size_t rank = inputs[0].shape.rank();
  return ReducedDims(normal_dim(kKind, attributes.integer("dim"), rank), rank);
}

std::vector<TensorType> infer_first_index(Types inputs, const Attributes& attributes) {
  require_computed(kKind, "x", inputs[0]);
  const Shape result = searched(inputs, attributes).result(inputs[0].shape);
  require_type(kKind, "value", inputs[1], {.shape = result, .dtype = inputs[0].dtype});
  return {{.shape = result, .dtype = DType::kI64}};
}

Rows first_index_rows(Types inputs, Types, const Attributes& attributes) {
  const ReducedDims dims = searched(inputs, attributes);
  Rows rows{all_broadcast(2, 1)};
  for (std::size_t dim = 0; dim < dims.rank(); ++dim) {
    const Sbp of_row = dims.word_of_result(dim);
    rows.push_back({{Sbp::split(dim), of_row}, {dims.contains(dim) ? kPartialMin : of_row}});
  }
  return rows;
}

// Values that occur: few numbers, so that x often has several equal ones and sometimes none.
std::vector<OperatorExample> first_index_examples() {
  return {{.inputs = {f64({2, 5, 4}), f64({2, 4})},
           .attributes = {{"dim", std::int64_t{1}}},
           .ranges = {{0, 2}, {0, 2}}},
          {.inputs = {f64({5, 7}), f64({5})},
           .attributes = {{"dim", std::int64_t{-1}}},
           .ranges = {{0, 2}, {0, 2}}},
          {.inputs = {i32({5, 3}), i32({3})},
           .attributes = {{"dim", std::int64_t{0}}},
           .ranges = {{0, 2}, {0, 2}}}};
}

TensorId arg_reduce(std::string_view reduction, LogicalGraph& graph, TensorId x, std::int64_t dim,
                    const std::string& name, int layer) {
  const TensorType& type = graph.tensor(x).type;
  const std::size_t searched = normal_dim(name, dim, type.shape.rank());
  require(type.shape[searched] > 0, ErrorCode::kBadInput,
          "{}: dim {} of {} has no elements, so none has an index", name, searched, to_text(type));
  BlockBuilder block(graph, name, layer);
  const auto normal = static_cast<std::int64_t>(searched);
  const TensorId value =
      block.add(reduction, "value", {x}, {{"dims", std::vector<std::int64_t>{normal}}});
  return block.add(kKind, "", {x, value}, {{"dim", normal}});
}

}  // namespace

TensorId argmax(LogicalGraph& graph, TensorId x, std::int64_t dim, const std::string& name,
                int layer) {
  return arg_reduce("reduce_max", graph, x, dim, name, layer);
}

TensorId argmin(LogicalGraph& graph, TensorId x, std::int64_t dim, const std::string& name,
                int layer) {
  return arg_reduce("reduce_min", graph, x, dim, name, layer);
}

void add_arg_reduce(OperatorRegistry& registry) {
  registry.add({.kind = std::string(kKind),
                .min_inputs = 2,
                .max_inputs = 2,
                .attributes = {{"dim", kInteger}},
                .infer = infer_first_index,
                .work = reduction_pass<1>,
                .signatures = first_index_rows,
                .needs_offsets = true,
                .examples = first_index_examples});
}

}  // namespace sextant
