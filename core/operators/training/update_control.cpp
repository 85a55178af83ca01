// What stands between the gradients and their updates, in one small tensor: the division by the
// tokens, clipping by the global norm, the loss scale, and whether to update at all. A device
// predicate: no host looks at it.
//
// | kind(operands) | words in | words out | |
// |---|---|---|---|
// | gradient_stats(gradient) | S(d) | P(sum) | every element has one owner |
// | add_stats(stats ...) | all P(sum) | P(sum) | a B among them becomes P without communication |
// | update_control, loss_scale_update | B | B | |
// | loss_scale | B | | |
//
// And all B. A replicated gradient counts once because its stats are B, a shard of one because its
// stats are P: the words say who owns what, and nobody divides by a number of replicas.
#include "core/base/check.h"
#include "core/graphs/operator.h"
#include "core/operators/families.h"
#include "core/operators/training/updates.h"

#include <string>

namespace sextant {
namespace {

// Parameters of one layer.
constexpr std::size_t kMostSummands = 4096;

void require_stats(std::string_view kind, const TensorType& stats) {
  require_type(kind, "stats", stats, stats_type());
}

TensorType scalar(DType dtype) { return {.shape = Shape(), .dtype = dtype}; }

DType scale_dtype(const Attributes& attributes) { return parse_dtype(attributes.text("dtype")); }

std::vector<TensorType> infer_gradient_stats(Types inputs, const Attributes&) {
  require_floating("gradient_stats", "gradient", inputs[0]);
  return {stats_type()};
}

std::vector<TensorType> infer_add_stats(Types inputs, const Attributes&) {
  for (const TensorType& stats : inputs) require_stats("add_stats", stats);
  return {stats_type()};
}

// {control}, and with stats the norm, and with a loss scale the scale that the step had.
std::vector<TensorType> infer_update_control(Types inputs, const Attributes& attributes) {
  require_shape("update_control", "token_count", inputs[0], Shape());
  require_floating("update_control", "token_count", inputs[0]);
  const double limit = attributes.real_or("max_norm", 0.0);
  require(limit >= 0, ErrorCode::kBadInput, "update_control: max_norm is {}, wanted 0 or more",
          limit);
  require(limit == 0 || inputs.size() > 1, ErrorCode::kBadInput,
          "update_control: max_norm is {}, but there are no stats to clip by", limit);
  std::vector<TensorType> outputs = {{.shape = {2}, .dtype = DType::kF64}};
  if (inputs.size() > 1) {
    require_stats("update_control", inputs[1]);
    outputs.push_back(scalar(DType::kF64));
  }
  if (inputs.size() > 2) {
    require_shape("update_control", "loss_scale", inputs[2], Shape());
    require_floating("update_control", "loss_scale", inputs[2]);
    outputs.push_back(scalar(DType::kF64));
  }
  return outputs;
}

std::vector<TensorType> infer_loss_scale(Types, const Attributes& attributes) {
  const TensorType scale = scalar(scale_dtype(attributes));
  require_floating("loss_scale", "it", scale);
  return {scale};
}

std::vector<TensorType> infer_loss_scale_update(Types inputs, const Attributes& attributes) {
  constexpr const char* kKind = "loss_scale_update";
  const TensorType scale = infer_loss_scale({}, attributes)[0];
  if (inputs.size() == 3) require_type(kKind, "loss_scale", inputs[0], scale);
  require_control(kKind, inputs[inputs.size() - 2]);
  require_stats(kKind, inputs.back());
  for (const char* name : {"growth", "backoff", "minimum"}) attributes.real(name);
  const std::int64_t interval = attributes.integer("interval");
  require(interval >= 1, ErrorCode::kBadInput, "{}: an interval of {} steps", kKind, interval);
  return {scale, scalar(DType::kI64)};
}

Rows stats_rows(Types inputs, Types, const Attributes&) {
  Rows rows{all_broadcast(1, 1)};
  for (std::size_t dim = 0; dim < inputs[0].shape.rank(); ++dim)
    rows.push_back({{Sbp::split(dim)}, {kPartialSum}});
  return rows;
}

Rows add_stats_rows(Types inputs, Types, const Attributes&) {
  return {all_broadcast(inputs.size(), 1),
          {std::vector<Sbp>(inputs.size(), kPartialSum), {kPartialSum}}};
}

Rows whole_rows(Types inputs, Types outputs, const Attributes&) {
  return {all_broadcast(inputs.size(), outputs.size())};
}

Rows rows_of_control(Types, Types, const Attributes&) { return {}; }
Work loss_scale_work(Types, Types, const Attributes&) { return no_work(); }

Work scalar_work(Types inputs, Types outputs, const Attributes&) {
  return elementwise_work(inputs, outputs, 4);
}

OperatorExample control_example(std::vector<TensorType> inputs) {
  // Half of the steps have gradients that are not finite.
  const std::vector<std::pair<std::int64_t, std::int64_t>> all = {{0, 4}, {0, 1}, {1, 4}};
  std::vector<std::pair<std::int64_t, std::int64_t>> ranges(
      all.begin(), all.begin() + static_cast<std::ptrdiff_t>(inputs.size()));
  const double limit = inputs.size() > 1 ? 0.5 : 0.0;
  return {.inputs = std::move(inputs),
          .attributes = {{"max_norm", limit}},
          .ranges = std::move(ranges)};
}

std::vector<OperatorExample> control_examples() {
  return {control_example({f64(Shape())}), control_example({f64(Shape()), stats_type()}),
          control_example({f64(Shape()), stats_type(), f64(Shape())})};
}

Attributes scale_attributes() {
  return {
      {"dtype", std::string("f64")},     {"growth", 2.0},    {"backoff", 0.5},
      {"interval", std::int64_t{2}},     {"minimum", 1.0},   {"parameter", std::string("example")},
      {"init", std::string("constant")}, {"init_value", 8.0}};
}

}  // namespace

void add_update_control(OperatorRegistry& registry) {
  registry.add(
      {.kind = "gradient_stats",
       .infer = infer_gradient_stats,
       .work = reduction_pass<2>,
       .signatures = stats_rows,
       .examples = [] {
         return std::vector<OperatorExample>{{.inputs = {f64({5, 3})}}, {.inputs = {f64(Shape())}}};
       }});
  registry.add({.kind = "add_stats",
                .min_inputs = 1,
                .max_inputs = kMostSummands,
                .infer = infer_add_stats,
                .work = elementwise_pass<1>,
                .signatures = add_stats_rows,
                .examples = [] {
                  const TensorType stats = stats_type();
                  return std::vector<OperatorExample>{{.inputs = {stats, stats, stats}}};
                }});
  registry.add({.kind = "update_control",
                .min_inputs = 1,
                .max_inputs = 3,
                .attributes = {{"max_norm", kReal, kOptional}, {"loss_scale", kReal, kOptional}},
                .infer = infer_update_control,
                .work = scalar_work,
                .signatures = whole_rows,
                .examples = control_examples});
  registry.add({.kind = "loss_scale",
                .min_inputs = 0,
                .max_inputs = 0,
                .attributes = {{"dtype", kText},
                               {"growth", kReal},
                               {"backoff", kReal},
                               {"minimum", kReal},
                               {"interval", kInteger},
                               {"parameter", kText},
                               {"init", kText},
                               {"init_value", kReal}},
                .infer = infer_loss_scale,
                .work = loss_scale_work,
                .signatures = rows_of_control,
                .state_outputs = {0}});
  registry.add({.kind = "loss_scale_update",
                .min_inputs = 2,
                .max_inputs = 3,
                .attributes = {{"dtype", kText},
                               {"growth", kReal},
                               {"backoff", kReal},
                               {"minimum", kReal},
                               {"interval", kInteger},
                               {"parameter", kText},
                               {"init", kText},
                               {"init_value", kReal}},
                .infer = infer_loss_scale_update,
                .work = scalar_work,
                .signatures = whole_rows,
                .state_outputs = {0, 1},
                .examples = [] {
                  return std::vector<OperatorExample>{{.inputs = {f64({2}), stats_type()},
                                                       .attributes = scale_attributes(),
                                                       .ranges = {{0, 1}, {0, 1}}}};
                }});
}

}  // namespace sextant
