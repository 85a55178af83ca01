// Table look-up and the gradient of the table. d: a dim of ids.
//
// | ids | table | y | |
// |---|---|---|---|
// | B | B | B | |
// | S(d) | B | S(d) | |
// | B | S(0) | P(sum) | vocabulary split: each id is served by one shard, others add 0 |
// | B | S(1) | S(last) | hidden split |
// | B | P | P | any reduction: the same rows on every device |
//
// An id outside the vocabulary is an error where it is looked up, whole or split: every device has
// the ids and knows the extent of the whole table. Files that let such ids in are refused before
// (core/files/id_ranges.h).
//
// | ids | dy | dtable | |
// |---|---|---|---|
// | B | B | B | |
// | S(d) | S(d) | P(sum) | |
// | B | S(last) | S(1) | |
// | B | B | S(0) | a shard of the vocabulary takes its own ids |
// | B | P(sum) | P(sum) | |
#include "core/base/check.h"
#include "core/graphs/logical_graph.h"
#include "core/graphs/operator.h"
#include "core/operators/families.h"
#include "core/operators/rules.h"

#include <utility>

namespace sextant {
namespace {

std::vector<TensorType> infer_embedding(Types inputs, const Attributes&) {
  const TensorType &ids = inputs[0], &table = inputs[1];
  require_integer("embedding", "ids", ids);
  require_floating("embedding", "table", table);
  require(table.shape.rank() == 2, ErrorCode::kBadInput,
          "embedding: table is {}, wanted [vocabulary, hidden]", to_text(table));
  std::vector<std::int64_t> extents = ids.shape.extents();
  extents.push_back(table.shape[1]);
  return {{.shape = Shape(std::move(extents)), .dtype = table.dtype}};
}

// Reads the rows it looks up, not the table.
Work embedding_work(Types inputs, Types outputs, const Attributes&) {
  return {.flops = 0,
          .read = size_of(inputs[0]) + size_of(outputs[0]),
          .written = size_of(outputs[0]),
          .kernel = "embedding"};
}

Rows embedding_rows(Types inputs, Types, const Attributes&) {
  const std::size_t rank = inputs[0].shape.rank();
  Rows rows{all_broadcast(2, 1)};
  for (std::size_t dim = 0; dim < rank; ++dim)
    rows.push_back({{Sbp::split(dim), kBroadcast}, {Sbp::split(dim)}});
  rows.push_back({{kBroadcast, Sbp::split(0)}, {kPartialSum}});
  rows.push_back({{kBroadcast, Sbp::split(1)}, {Sbp::split(rank)}});
  for (const Sbp partial : {kPartialSum, kPartialMax, kPartialMin})
    rows.push_back({{kBroadcast, partial}, {partial}});
  return rows;
}

void embedding_gradient(GradientContext& context) {
  if (!context.wants(1)) return;
  const std::int64_t vocab = context.graph().tensor(context.input(1)).type.shape[0];
  context.set_input_gradient(
      1, context.add("embedding_grad", {context.input(0), *context.output_gradient(0)},
                     {{"vocab", vocab}, {"out_dtype", gradient_dtype(context, 1)}}, 1));
}

std::vector<TensorType> infer_embedding_grad(Types inputs, const Attributes& attributes) {
  const TensorType &ids = inputs[0], &dy = inputs[1];
  require_integer("embedding_grad", "ids", ids);
  require_floating("embedding_grad", "dy", dy);
  require_min_rank("embedding_grad", "dy", dy, 1);
  require_shape("embedding_grad", "ids", ids, leading_dims(dy.shape));
  return {{.shape = {attributes.integer("vocab"), last_extent(dy.shape)},
           .dtype = dtype_or(attributes, "out_dtype", accumulator_type(dy.dtype))}};
}

Work embedding_grad_work(Types inputs, Types outputs, const Attributes&) {
  return elementwise_work(inputs.last(1), outputs, 1, "embedding");
}

Rows embedding_grad_rows(Types inputs, Types, const Attributes&) {
  const std::size_t rank = inputs[0].shape.rank();
  Rows rows{all_broadcast(2, 1)};
  for (std::size_t dim = 0; dim < rank; ++dim)
    rows.push_back({{Sbp::split(dim), Sbp::split(dim)}, {kPartialSum}});
  rows.push_back({{kBroadcast, Sbp::split(rank)}, {Sbp::split(1)}});
  rows.push_back({{kBroadcast, kBroadcast}, {Sbp::split(0)}});
  rows.push_back({{kBroadcast, kPartialSum}, {kPartialSum}});
  return rows;
}

constexpr IdInput ids_of_rows(std::int64_t (*count)(Types, const Attributes&)) {
  return {
      .input = 0, .of = "rows of the table", .count = count, .outside = IdInput::Outside::kNone};
}

}  // namespace

void add_embedding(OperatorRegistry& registry) {
  registry.add(
      {.kind = "embedding",
       .min_inputs = 2,
       .max_inputs = 2,
       .infer = infer_embedding,
       .work = embedding_work,
       .signatures = embedding_rows,
       .gradient = embedding_gradient,
       .needs_offsets = true,
       .ids = ids_of_rows([](Types inputs, const Attributes&) { return inputs[1].shape[0]; }),
       .examples = [] {
         return std::vector<OperatorExample>{
             {.inputs = {i32({2, 5}), f64({7, 3})}, .ranges = {{0, 6}, {-3, 3}}}};
       }});
  registry.add({.kind = "embedding_grad",
                .min_inputs = 2,
                .max_inputs = 2,
                .attributes = {{"vocab", kInteger}, {"out_dtype", kText, kOptional}},
                .infer = infer_embedding_grad,
                .work = embedding_grad_work,
                .signatures = embedding_grad_rows,
                .needs_offsets = true,
                .ids = ids_of_rows([](Types, const Attributes& attributes) {
                  return attributes.integer("vocab");
                }),
                .examples = [] {
                  return std::vector<OperatorExample>{{.inputs = {i32({2, 5}), f64({2, 5, 3})},
                                                       .attributes = {{"vocab", std::int64_t{7}}},
                                                       .ranges = {{0, 6}, {-3, 3}}}};
                }});
}

}  // namespace sextant
