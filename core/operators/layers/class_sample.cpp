// A sample of the classes, and the rows of a table that it takes. C classes in g buckets, of which
// t each are taken.
//
// | class_sample labels | ids | places | |
// |---|---|---|---|
// | B | B | B | |
// | B | S(0) | P(max) | parts that divide g: a device knows the places of its own buckets |
//
// | bucket_rows table | ids | rows | |
// |---|---|---|---|
// | B | B | B | |
// | S(0) | S(0) | S(0) | parts that divide g |
// | S(1) | B | S(1) | |
// | P | B | P | any reduction: the same rows on every device |
//
// | bucket_rows_grad ids | drows | dtable | |
// |---|---|---|---|
// | B | B | B | |
// | S(0) | S(0) | S(0) | parts that divide g |
// | B | S(1) | S(1) | |
// | B | P(sum) | P(sum) | linear in drows |
//
// Ids count inside their bucket, so whoever holds whole buckets needs no offset.
#include "core/operators/layers/class_sample.h"

#include "core/base/check.h"
#include "core/graphs/operator.h"
#include "core/operators/families.h"
#include "core/operators/layers/loss.h"
#include "core/operators/reductions/block_builder.h"
#include "core/operators/rules.h"

#include <utility>
#include <vector>

namespace sextant {
namespace {

using Examples = std::vector<OperatorExample>;

constexpr Sbp kTableRows{.kind = Sbp::Kind::kSplit, .dim = 0};
constexpr Sbp kTableColumns{.kind = Sbp::Kind::kSplit, .dim = 1};

std::int64_t positive_attribute(std::string_view kind, const Attributes& attributes,
                                std::string_view name) {
  const std::int64_t value = attributes.integer(name);
  require(value > 0, ErrorCode::kBadInput, "{}: {} is {}, wanted 1 or more", kind, name, value);
  return value;
}

// Attributes `bucket` and `taken`, and how many buckets a number of rows or of ids is.
struct Buckets {
  std::int64_t size, taken;

  Buckets(std::string_view kind, const Attributes& attributes)
      : size(positive_attribute(kind, attributes, "bucket")),
        taken(positive_attribute(kind, attributes, "taken")) {
    require(taken <= size, ErrorCode::kBadInput, "{}: {} taken of buckets of {}", kind, taken,
            size);
  }
  static std::int64_t count(std::string_view kind, const TensorType& type, std::int64_t of_each) {
    require(type.shape[0] % of_each == 0, ErrorCode::kBadInput,
            "{}: {} is no whole number of buckets with {} each", kind, to_text(type), of_each);
    return type.shape[0] / of_each;
  }
};

// class_sample

ClassSample sample_of(const Attributes& attributes) {
  constexpr std::string_view kind = "class_sample";
  const ClassSample sample{.classes = positive_attribute(kind, attributes, "classes"),
                           .buckets = positive_attribute(kind, attributes, "buckets"),
                           .taken = positive_attribute(kind, attributes, "taken")};
  validate(sample, std::string(kind));
  return sample;
}

std::vector<TensorType> infer_class_sample(Types inputs, const Attributes& attributes) {
  constexpr std::string_view kind = "class_sample";
  require_integer(kind, "labels", inputs[0]);
  require(inputs[0].shape.rank() == 1, ErrorCode::kBadInput, "{}: labels are {}, wanted one dim",
          kind, to_text(inputs[0]));
  require(attributes.integer_or("ignore_index", kIgnoreIndex) < 0, ErrorCode::kBadInput,
          "{}: ignore_index is {}, wanted less than 0", kind,
          attributes.integer_or("ignore_index", kIgnoreIndex));
  const ClassSample sample = sample_of(attributes);
  return {{.shape = {sample.taken}, .dtype = DType::kI32},
          {.shape = inputs[0].shape, .dtype = DType::kI32}};
}

Rows class_sample_rows(Types, Types, const Attributes& attributes) {
  return {all_broadcast(1, 2),
          {{kBroadcast}, {kTableRows, kPartialMax}, attributes.integer("buckets")}};
}

Work class_sample_work(Types inputs, Types outputs, const Attributes&) {
  return streaming_work(inputs, outputs, static_cast<Flops>(outputs[0].shape.elements()),
                        "elementwise");
}

// bucket_rows

std::vector<TensorType> infer_bucket_rows(Types inputs, const Attributes& attributes) {
  constexpr std::string_view kind = "bucket_rows";
  const TensorType &table = inputs[0], &ids = inputs[1];
  require_floating(kind, "table", table);
  require_integer(kind, "ids", ids);
  require(table.shape.rank() == 2 && ids.shape.rank() == 1, ErrorCode::kBadInput,
          "{}: table {} and ids {}, wanted two dims and one", kind, to_text(table), to_text(ids));
  const Buckets buckets(kind, attributes);
  require(Buckets::count(kind, table, buckets.size) == Buckets::count(kind, ids, buckets.taken),
          ErrorCode::kBadInput, "{}: table {} and ids {} have other numbers of buckets", kind,
          to_text(table), to_text(ids));
  return {{.shape = {ids.shape[0], table.shape[1]}, .dtype = table.dtype}};
}

std::int64_t buckets_of_rows(const TensorType& table, const Attributes& attributes) {
  return table.shape[0] / attributes.integer("bucket");
}

Rows bucket_rows_rows(Types inputs, Types, const Attributes& attributes) {
  Rows rows{all_broadcast(2, 1),
            {{kTableRows, kTableRows}, {kTableRows}, buckets_of_rows(inputs[0], attributes)},
            {{kTableColumns, kBroadcast}, {kTableColumns}}};
  for (const Sbp partial : {kPartialSum, kPartialMax, kPartialMin})
    rows.push_back({{partial, kBroadcast}, {partial}});
  return rows;
}

// Reads the rows that are taken, not the table.
Work bucket_rows_work(Types inputs, Types outputs, const Attributes&) {
  return {.flops = 0,
          .read = size_of(inputs[1]) + size_of(outputs[0]),
          .written = size_of(outputs[0]),
          .kernel = "embedding"};
}

void bucket_rows_gradient(GradientContext& context) {
  if (!context.wants(0)) return;
  Attributes attributes = context.op().attributes;
  attributes.set("out_dtype", gradient_dtype(context, 0));
  context.set_input_gradient(
      0, context.add("bucket_rows_grad", {context.input(1), *context.output_gradient(0)},
                     std::move(attributes), 0));
}

// bucket_rows_grad

std::vector<TensorType> infer_bucket_rows_grad(Types inputs, const Attributes& attributes) {
  constexpr std::string_view kind = "bucket_rows_grad";
  const TensorType &ids = inputs[0], &drows = inputs[1];
  require_integer(kind, "ids", ids);
  require_floating(kind, "drows", drows);
  require(ids.shape.rank() == 1 && drows.shape.rank() == 2 && ids.shape[0] == drows.shape[0],
          ErrorCode::kBadInput, "{}: ids {} and drows {}, wanted [n] and [n, f]", kind,
          to_text(ids), to_text(drows));
  const Buckets buckets(kind, attributes);
  return {{.shape = {Buckets::count(kind, ids, buckets.taken) * buckets.size, drows.shape[1]},
           .dtype = dtype_or(attributes, "out_dtype", accumulator_type(drows.dtype))}};
}

Rows bucket_rows_grad_rows(Types, Types outputs, const Attributes& attributes) {
  return {all_broadcast(2, 1),
          {{kTableRows, kTableRows}, {kTableRows}, buckets_of_rows(outputs[0], attributes)},
          {{kBroadcast, kTableColumns}, {kTableColumns}},
          {{kBroadcast, kPartialSum}, {kPartialSum}}};
}

// Clears the table and adds the rows.
Work bucket_rows_grad_work(Types inputs, Types outputs, const Attributes&) {
  return elementwise_work(inputs.last(1), outputs, 1, "embedding");
}

constexpr IdInput ids_in_bucket(std::size_t input) {
  return {.input = input,
          .of = "rows of a bucket",
          .count = [](Types, const Attributes& attributes) { return attributes.integer("bucket"); },
          .outside = IdInput::Outside::kNone};
}

// Four buckets of three classes, of which two each are taken.
constexpr std::pair<std::int64_t, std::int64_t> kTableValue = {-3, 3}, kIdInBucket = {0, 2},
                                                kSampledLabel = {-1, 11};
Attributes of_buckets() { return {{"bucket", std::int64_t{3}}, {"taken", std::int64_t{2}}}; }

}  // namespace

void validate(const ClassSample& sample, const std::string& prefix) {
  require(sample.buckets >= 1 && sample.classes % sample.buckets == 0 &&
              sample.taken % sample.buckets == 0,
          ErrorCode::kBadInput, "{}: {} buckets do not divide {} classes and {} that are taken",
          prefix, sample.buckets, sample.classes, sample.taken);
  require(sample.taken >= 1 && sample.taken <= sample.classes, ErrorCode::kBadInput,
          "{}: {} of {} classes are taken, wanted 1 to all", prefix, sample.taken, sample.classes);
}

SampledLogits sampled_logits(LogicalGraph& graph, TensorId x, TensorId labels, TensorId weight,
                             const ClassSample& sample, const std::string& name, int layer,
                             std::int64_t ignore_index) {
  validate(sample, name);
  const auto add = [&](std::string kind, std::string op_name, std::vector<TensorId> inputs,
                       Attributes attributes) {
    return graph.add({.kind = std::move(kind),
                      .name = std::move(op_name),
                      .attributes = std::move(attributes),
                      .inputs = std::move(inputs),
                      .outputs = {},
                      .phase = Phase::kForward,
                      .layer = layer,
                      .parameter = std::nullopt});
  };
  const OpId sampled = add("class_sample", name + ".sample", {labels},
                           {{"classes", sample.classes},
                            {"buckets", sample.buckets},
                            {"taken", sample.taken},
                            {"ignore_index", ignore_index},
                            {"stream", name + ".sample"}});
  const OpId rows = add("bucket_rows", name + ".rows", {weight, graph.output(sampled, 0)},
                        {{"bucket", sample.bucket()}, {"taken", sample.taken_of_bucket()}});
  const DType dtype = graph.tensor(x).type.dtype;
  TensorId taken = graph.output(rows);
  // Rows are few beside the table, which stays in its own type.
  if (graph.tensor(taken).type.dtype != dtype)
    taken = graph.output(
        add("cast", name + ".rows.cast", {taken}, {{"dtype", std::string(to_string(dtype))}}));
  const OpId logits = add("matmul", name, {x, taken}, {{"transpose_w", true}});
  return {.logits = graph.output(logits), .labels = graph.output(sampled, 1)};
}

void add_class_sample(OperatorRegistry& registry) {
  registry.add({.kind = "class_sample",
                .attributes = {{"classes", kInteger},
                               {"buckets", kInteger},
                               {"taken", kInteger},
                               {"stream", kText},
                               {"ignore_index", kInteger, kOptional}},
                .infer = infer_class_sample,
                .work = class_sample_work,
                .signatures = class_sample_rows,
                .needs_offsets = true,
                .ids = IdInput{.input = 0,
                               .of = "classes",
                               .count =
                                   [](Types, const Attributes& attributes) {
                                     return attributes.integer("classes");
                                   },
                               .outside = IdInput::Outside::kIgnored},
                .examples = [] {
                  return Examples{{.inputs = {i32({5})},
                                   .attributes = {{"classes", std::int64_t{12}},
                                                  {"buckets", std::int64_t{4}},
                                                  {"taken", std::int64_t{8}},
                                                  {"stream", std::string("example")},
                                                  {"ignore_index", std::int64_t{-1}}},
                                   .ranges = {kSampledLabel}}};
                }});
  registry.add({.kind = "bucket_rows",
                .min_inputs = 2,
                .max_inputs = 2,
                .attributes = {{"bucket", kInteger}, {"taken", kInteger}},
                .infer = infer_bucket_rows,
                .work = bucket_rows_work,
                .signatures = bucket_rows_rows,
                .gradient = bucket_rows_gradient,
                .ids = ids_in_bucket(1),
                .examples = [] {
                  return Examples{{.inputs = {f64({12, 5}), i32({8})},
                                   .attributes = of_buckets(),
                                   .ranges = {kTableValue, kIdInBucket}}};
                }});
  registry.add(
      {.kind = "bucket_rows_grad",
       .min_inputs = 2,
       .max_inputs = 2,
       .attributes = {{"bucket", kInteger}, {"taken", kInteger}, {"out_dtype", kText, kOptional}},
       .infer = infer_bucket_rows_grad,
       .work = bucket_rows_grad_work,
       .signatures = bucket_rows_grad_rows,
       .ids = ids_in_bucket(0),
       .examples = [] {
         return Examples{{.inputs = {i32({8}), f64({8, 5})},
                          .attributes = of_buckets(),
                          .ranges = {kIdInBucket, kTableValue}}};
       }});
}

}  // namespace sextant
