// Operators without a device input: parameter, input, constant; and the sink `metrics`.
//
// | kind | words |
// |---|---|
// | parameter, input | any without partial: the user's choice |
// | constant | B; S(any dim) |
// | metrics | B for every scalar it reads |
#include "core/operators/movement/sources.h"

#include "core/base/check.h"
#include "core/graphs/operator.h"
#include "core/operators/families.h"
#include "core/operators/rules.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace sextant {
namespace {

std::vector<TensorType> infer_source(Types, const Attributes& attributes) {
  return {{.shape = Shape(attributes.integers("shape")),
           .dtype = dtype_attribute(attributes, "dtype")}};
}

bool is_of_bytes(const Attributes& attributes) {
  return attributes.text("dtype") == to_string(DType::kU8);
}

// A limit is one of ids.
std::vector<TensorType> infer_input(Types, const Attributes& attributes) {
  std::vector<TensorType> outputs =
      is_of_bytes(attributes)
          ? std::vector<TensorType>{{.shape = Shape(attributes.integers("shape")),
                                     .dtype = DType::kU8}}
          : infer_source({}, attributes);
  for (const char* name : {"limit", "ignore_index", "mask_id"})
    if (attributes.contains(name))
      require_integer("input", std::string("with '") + name + "' it", outputs[0]);
  const std::int64_t limit = attributes.integer_or("limit", 1);
  require(limit >= 1, ErrorCode::kBadInput, "input: the attribute 'limit' is {}, wanted 1 or more",
          limit);
  if (!attributes.contains("mask_id")) return outputs;
  const std::int64_t mask = attributes.integer("mask_id");
  require(attributes.contains("limit") && mask >= 0 && mask < limit, ErrorCode::kBadInput,
          "input: the attribute 'mask_id' is {}, wanted 0 or more and less than a 'limit'", mask);
  return outputs;
}

std::vector<TensorType> infer_parameter(Types, const Attributes& attributes) {
  std::vector<TensorType> outputs = infer_source({}, attributes);
  require_floating("parameter", "it", outputs[0]);
  initializer_of(attributes);
  return outputs;
}

std::vector<TensorType> infer_metrics(Types inputs, const Attributes& attributes) {
  for (const TensorType& input : inputs) require_shape("metrics", "an input", input, Shape());
  const std::string& names = attributes.text("names");
  const auto num_names = 1 + static_cast<std::size_t>(std::count(names.begin(), names.end(), ','));
  require(num_names == inputs.size(), ErrorCode::kBadInput,
          "metrics: {} inputs but {} names in '{}'", inputs.size(), num_names, names);
  return {};
}

Work source_work(Types, Types, const Attributes&) { return no_work(); }

Work constant_work(Types, Types outputs, const Attributes&) {
  return streaming_work({}, outputs, 0, "elementwise");
}

Rows rows_of_source(Types, Types, const Attributes&) { return {}; }

Rows constant_rows(Types, Types outputs, const Attributes&) {
  Rows rows{all_broadcast(0, 1)};
  for (std::size_t dim = 0; dim < outputs[0].shape.rank(); ++dim)
    rows.push_back({.inputs = {}, .outputs = {Sbp::split(dim)}});
  return rows;
}

Rows metrics_rows(Types inputs, Types, const Attributes&) {
  return {all_broadcast(inputs.size(), 0)};
}

constexpr std::pair<Initializer::Kind, std::string_view> kInitializerNames[] = {
    {Initializer::Kind::kZeros, "zeros"},
    {Initializer::Kind::kOnes, "ones"},
    {Initializer::Kind::kNormal, "normal"}};

}  // namespace

void set_initializer(Attributes& attributes, const Initializer& initializer) {
  for (const auto& [kind, name] : kInitializerNames)
    if (kind == initializer.kind) attributes.set("init", std::string(name));
  attributes.set("init_std", initializer.standard_deviation);
}

Initializer initializer_of(const Attributes& attributes) {
  const std::string& text = attributes.text("init");
  for (const auto& [kind, name] : kInitializerNames)
    if (name == text) {
      const double deviation = attributes.real("init_std");
      require(std::isfinite(deviation) && deviation >= 0, ErrorCode::kBadInput,
              "init_std {}: a standard deviation is finite and not negative", deviation);
      return {.kind = kind, .standard_deviation = deviation};
    }
  fail(ErrorCode::kBadInput, "initializer '{}' is not zeros, ones or normal", text);
}

TensorId add_parameter(LogicalGraph& graph, std::string name, int layer, const TensorType& type,
                       const ParameterInfo& info) {
  Attributes attributes{{"shape", type.shape.extents()},
                        {"dtype", std::string(to_string(type.dtype))}};
  set_initializer(attributes, info.initializer);
  return graph.output(graph.add({.kind = "parameter",
                                 .name = std::move(name),
                                 .attributes = std::move(attributes),
                                 .inputs = {},
                                 .outputs = {},
                                 .phase = Phase::kForward,
                                 .layer = layer,
                                 .parameter = info}));
}

bool takes_token_data(std::string_view input, const TensorType& type) {
  return (input == "tokens" || input == "labels") && type.shape.rank() == 2 &&
         type.dtype == DType::kI32;
}

TensorId add_input(LogicalGraph& graph, std::string name, int layer, const TensorType& type,
                   const InputValues& values) {
  Attributes attributes{{"shape", type.shape.extents()},
                        {"dtype", std::string(to_string(type.dtype))}};
  if (values.limit) attributes.set("limit", *values.limit);
  if (values.ignored) attributes.set("ignore_index", *values.ignored);
  if (values.mask) attributes.set("mask_id", *values.mask);
  return graph.output(graph.add({.kind = "input",
                                 .name = std::move(name),
                                 .attributes = std::move(attributes),
                                 .inputs = {},
                                 .outputs = {},
                                 .phase = Phase::kData,
                                 .layer = layer,
                                 .parameter = std::nullopt}));
}

void add_sources(OperatorRegistry& registry) {
  registry.add(
      {.kind = "parameter",
       .role = OperatorRole::kParameter,
       .min_inputs = 0,
       .max_inputs = 0,
       .attributes = {{"shape", kIntegers}, {"dtype", kText}, {"init", kText}, {"init_std", kReal}},
       .infer = infer_parameter,
       .work = source_work,
       .signatures = rows_of_source,
       .state_outputs = {0}});
  registry.add({.kind = "input",
                .role = OperatorRole::kInput,
                .min_inputs = 0,
                .max_inputs = 0,
                .attributes = {{"shape", kIntegers},
                               {"dtype", kText},
                               {"limit", kInteger, kOptional},
                               {"ignore_index", kInteger, kOptional},
                               {"mask_id", kInteger, kOptional}},
                .infer = infer_input,
                .work = source_work,
                .signatures = rows_of_source,
                .on_host = true});
  registry.add(
      {.kind = "constant",
       .min_inputs = 0,
       .max_inputs = 0,
       .attributes = {{"shape", kIntegers}, {"dtype", kText}, {"value", kReal}},
       .infer = infer_source,
       .work = constant_work,
       .signatures = constant_rows,
       .examples = [] {
         return std::vector<OperatorExample>{
             {.attributes = {
                  {"shape", std::vector<std::int64_t>{5, 2}}, {"dtype", "f64"}, {"value", 1.5}}}};
       }});
  registry.add({.kind = "metrics",
                .min_inputs = 1,
                .max_inputs = 8,
                .attributes = {{"names", kText}},
                .infer = infer_metrics,
                .work = source_work,
                .signatures = metrics_rows,
                .on_host = true});
}

}  // namespace sextant
