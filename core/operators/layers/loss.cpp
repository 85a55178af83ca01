// Softmax cross-entropy in pieces that may be split over the classes: local maximum and sum, then
// global ones. Only `cross_entropy` has a gradient rule and it emits the gradient of the logits in
// one operator: the maximum carries none, and the gradients through the sum and the picked logit
// would pass over the classes three times.
//
// d: a dim of the labels; last: the classes; all B everywhere besides.
// | kind(operands) | words in | words out |
// |---|---|---|
// | row_max(x) | S(d) | S(d) |
// |  | S(last); P(max) | P(max) |
// | row_sum_exp(x, max) | S(d), S(d) | S(d) |
// |  | S(last), B | P(sum) |
// | pick(x, labels) | S(d), S(d) | S(d) |
// |  | S(last), B: the other shards give 0 | P(sum) |
// |  | P(sum), B: linear in x | P(sum) |
// | cross_entropy(x, max, sum, picked, labels) | all S(d) | both P(sum) |
// |  | x S(last), the rest B; x is not read | both B |
// | cross_entropy_grad(x, max, sum, labels, dloss) | S(d), dloss B | S(d) |
// |  | x S(last), the rest B | S(last) |
// |  | dloss P(sum), the rest B: linear in dloss | P(sum) |
#include "core/operators/layers/loss.h"

#include "core/base/check.h"
#include "core/graphs/operator.h"
#include "core/operators/families.h"
#include "core/operators/rules.h"

#include <utility>

namespace sextant {
namespace {

// What every row of the logits has: a maximum, a sum, the label's logit.
TensorType row_type(const TensorType& x) {
  return {.shape = leading_dims(x.shape), .dtype = accumulator_type(x.dtype)};
}

TensorType scalar_type(const TensorType& x) {
  return {.shape = Shape(), .dtype = accumulator_type(x.dtype)};
}

void require_logits(std::string_view kind, const TensorType& x) {
  require_floating(kind, "x", x);
  require_min_rank(kind, "x", x, 1);
}

void require_labels(std::string_view kind, const TensorType& labels, const TensorType& x) {
  require_integer(kind, "labels", labels);
  require_shape(kind, "labels", labels, leading_dims(x.shape));
}

// S(d) of every operand for every dim of the labels.
void append_token_rows(Rows& rows, const TensorType& x, std::size_t num_inputs, const Sbp* output) {
  for (std::size_t dim = 0; dim + 1 < x.shape.rank(); ++dim) {
    rows.push_back({std::vector<Sbp>(num_inputs, Sbp::split(dim)),
                    {output != nullptr ? *output : Sbp::split(dim)}});
  }
}

// x split on its classes, the rest B.
SbpSignature class_split(const TensorType& x, std::size_t num_inputs, std::vector<Sbp> outputs) {
  std::vector<Sbp> inputs(num_inputs);
  inputs[0] = Sbp::split(x.shape.rank() - 1);
  return {std::move(inputs), std::move(outputs)};
}

// row_max

std::vector<TensorType> infer_row_max(Types inputs, const Attributes&) {
  require_logits("row_max", inputs[0]);
  return {row_type(inputs[0])};
}

Rows row_max_rows(Types inputs, Types, const Attributes&) {
  Rows rows{all_broadcast(1, 1)};
  append_token_rows(rows, inputs[0], 1, nullptr);
  rows.push_back(class_split(inputs[0], 1, {kPartialMax}));
  rows.push_back({{kPartialMax}, {kPartialMax}});
  return rows;
}

// row_sum_exp

std::vector<TensorType> infer_row_sum_exp(Types inputs, const Attributes&) {
  require_logits("row_sum_exp", inputs[0]);
  require_type("row_sum_exp", "max", inputs[1], row_type(inputs[0]));
  return {row_type(inputs[0])};
}

Rows row_sum_exp_rows(Types inputs, Types, const Attributes&) {
  Rows rows{all_broadcast(2, 1)};
  append_token_rows(rows, inputs[0], 2, nullptr);
  rows.push_back(class_split(inputs[0], 2, {kPartialSum}));
  return rows;
}

// pick

std::vector<TensorType> infer_pick(Types inputs, const Attributes&) {
  require_logits("pick", inputs[0]);
  require_labels("pick", inputs[1], inputs[0]);
  return {row_type(inputs[0])};
}

// Reads one logit per row.
Work pick_work(Types inputs, Types outputs, const Attributes&) {
  return {.flops = 0,
          .read = size_of(inputs[1]) + size_of(outputs[0]),
          .written = size_of(outputs[0]),
          .kernel = "embedding"};
}

Rows pick_rows(Types inputs, Types, const Attributes&) {
  Rows rows{all_broadcast(2, 1)};
  append_token_rows(rows, inputs[0], 2, nullptr);
  rows.push_back(class_split(inputs[0], 2, {kPartialSum}));
  rows.push_back({{kPartialSum, kBroadcast}, {kPartialSum}});
  return rows;
}

// cross_entropy

// The gradient spreads the smoothed share over `classes`.
void require_smoothing(std::string_view kind, const TensorType& x, const Attributes& attributes) {
  const double smoothing = attributes.real_or("smoothing", 0.0);
  require(smoothing >= 0 && smoothing < 1, ErrorCode::kBadInput,
          "{}: the attribute 'smoothing' is {}, wanted 0 or more and less than 1", kind, smoothing);
  require(smoothing == 0 || attributes.contains("classes"), ErrorCode::kBadInput,
          "{}: 'smoothing' is {}, but the attribute 'classes' is missing: wanted {}", kind,
          smoothing, last_extent(x.shape));
  const std::int64_t classes = attributes.integer_or("classes", last_extent(x.shape));
  require(classes == last_extent(x.shape), ErrorCode::kBadInput,
          "{}: the attribute 'classes' is {}, but x is {}: wanted {}", kind, classes, to_text(x),
          last_extent(x.shape));
}

std::vector<TensorType> infer_cross_entropy(Types inputs, const Attributes& attributes) {
  const TensorType& x = inputs[0];
  require_logits("cross_entropy", x);
  require_smoothing("cross_entropy", x, attributes);
  require_type("cross_entropy", "max", inputs[1], row_type(x));
  require_type("cross_entropy", "sum", inputs[2], row_type(x));
  require_type("cross_entropy", "picked", inputs[3], row_type(x));
  require_labels("cross_entropy", inputs[4], x);
  return {scalar_type(x), scalar_type(x)};
}

Work cross_entropy_work(Types inputs, Types outputs, const Attributes&) {
  return elementwise_work(inputs.subspan(1), outputs, 4, "reduction");
}

Rows cross_entropy_rows(Types inputs, Types, const Attributes&) {
  Rows rows{all_broadcast(5, 2)};
  append_token_rows(rows, inputs[0], 5, &kPartialSum);
  for (SbpSignature& row : rows) row.outputs.resize(2, row.outputs.front());
  rows.push_back(class_split(inputs[0], 5, {kBroadcast, kBroadcast}));
  return rows;
}

void cross_entropy_gradient(GradientContext& context) {
  require(!context.output_gradient(1), ErrorCode::kBadInput,
          "operator '{}': the token count of cross_entropy has no gradient", context.op().name);
  const TensorId max = context.input(1), sum = context.input(2), labels = context.input(4);
  context.set_input_gradient(
      0, context.add("cross_entropy_grad",
                     {context.input(0), max, sum, labels, *context.output_gradient(0)},
                     context.op().attributes, 0));
}

// cross_entropy_grad

std::vector<TensorType> infer_cross_entropy_grad(Types inputs, const Attributes& attributes) {
  const TensorType& x = inputs[0];
  require_logits("cross_entropy_grad", x);
  require_smoothing("cross_entropy_grad", x, attributes);
  require_type("cross_entropy_grad", "max", inputs[1], row_type(x));
  require_type("cross_entropy_grad", "sum", inputs[2], row_type(x));
  require_labels("cross_entropy_grad", inputs[3], x);
  require_type("cross_entropy_grad", "dloss", inputs[4], scalar_type(x));
  return {x};
}

Rows cross_entropy_grad_rows(Types inputs, Types, const Attributes&) {
  Rows rows{all_broadcast(5, 1)};
  append_token_rows(rows, inputs[0], 5, nullptr);
  for (SbpSignature& row : rows) row.inputs[4] = kBroadcast;
  rows.push_back(class_split(inputs[0], 5, {Sbp::split(inputs[0].shape.rank() - 1)}));
  rows.push_back({{kBroadcast, kBroadcast, kBroadcast, kBroadcast, kPartialSum}, {kPartialSum}});
  return rows;
}

IdInput label_input(std::size_t input, IdInput::Outside outside) {
  return {.input = input,
          .of = "classes",
          .count = [](Types inputs, const Attributes&) { return last_extent(inputs[0].shape); },
          .outside = outside};
}

// Examples: 10 rows of 7 classes, some labels of an example may be ignored (-1 is ignore_index).
constexpr std::int64_t kClasses = 7;
constexpr std::pair<std::int64_t, std::int64_t> kAnyLogit = {-3, 3}, kLabel = {-1, kClasses - 1},
                                                kSum = {1, 9}, kMax = {3, 5};
TensorType logits() { return f64({2, 5, kClasses}); }
TensorType row() { return f64({2, 5}); }
TensorType labels() { return i32({2, 5}); }
Attributes ignoring() { return {{"ignore_index", std::int64_t{-1}}}; }

}  // namespace

LossTensors softmax_cross_entropy(LogicalGraph& graph, TensorId logits, TensorId labels,
                                  const std::string& name, int layer, std::int64_t ignore_index,
                                  double smoothing) {
  require(smoothing >= 0 && smoothing < 1, ErrorCode::kUsage,
          "{}: label smoothing {}, wanted 0 or more and less than 1", name, smoothing);
  const auto add = [&](std::string kind, std::string op_name, std::vector<TensorId> inputs,
                       Attributes attributes = {}) {
    return graph.add({.kind = std::move(kind),
                      .name = std::move(op_name),
                      .attributes = std::move(attributes),
                      .inputs = std::move(inputs),
                      .outputs = {},
                      .phase = Phase::kForward,
                      .layer = layer,
                      .parameter = std::nullopt});
  };
  const TensorId max = graph.output(add("row_max", name + ".max", {logits}));
  const TensorId sum = graph.output(add("row_sum_exp", name + ".sum_exp", {logits, max}));
  TensorId picked = graph.output(add("pick", name + ".pick", {logits, labels}));
  Attributes attributes{{"ignore_index", ignore_index}};
  if (smoothing > 0) {
    const TensorType type = graph.tensor(logits).type;
    const std::int64_t classes = last_extent(type.shape);
    const auto last = static_cast<std::int64_t>(type.shape.rank()) - 1;
    const auto scaled = [&](const char* part, TensorId x, double factor) {
      return graph.output(add("scale", name + part, {x}, {{"factor", factor}}));
    };
    const TensorId total =
        graph.output(add("reduce_sum", name + ".total", {logits},
                         {{"dims", std::vector<std::int64_t>{last}},
                          {"out_dtype", std::string(to_string(accumulator_type(type.dtype)))}}));
    picked =
        graph.output(add("add", name + ".smoothed",
                         {scaled(".of_label", picked, 1 - smoothing),
                          scaled(".of_all", total, smoothing / static_cast<double>(classes))}));
    attributes.set("smoothing", smoothing);
    attributes.set("classes", classes);
  }
  const OpId loss = add("cross_entropy", name, {logits, max, sum, picked, labels}, attributes);
  return {.loss_sum = graph.output(loss, 0), .token_count = graph.output(loss, 1)};
}

void add_loss(OperatorRegistry& registry) {
  registry.add({.kind = "row_max",
                .infer = infer_row_max,
                .work = reduction_pass<1>,
                .signatures = row_max_rows,
                .examples = [] { return std::vector<OperatorExample>{{.inputs = {logits()}}}; }});
  registry.add({.kind = "row_sum_exp",
                .min_inputs = 2,
                .max_inputs = 2,
                .infer = infer_row_sum_exp,
                .work = reduction_pass<3>,
                .signatures = row_sum_exp_rows,
                .examples = [] {
                  return std::vector<OperatorExample>{
                      {.inputs = {logits(), row()}, .ranges = {kAnyLogit, kMax}}};
                }});
  registry.add({.kind = "pick",
                .role = OperatorRole::kPick,
                .min_inputs = 2,
                .max_inputs = 2,
                .attributes = {{"ignore_index", kInteger, kOptional}},
                .infer = infer_pick,
                .work = pick_work,
                .signatures = pick_rows,
                .needs_offsets = true,
                .ids = label_input(1, IdInput::Outside::kAny),
                .examples = [] {
                  return std::vector<OperatorExample>{
                      {.inputs = {logits(), labels()}, .ranges = {kAnyLogit, kLabel}}};
                }});
  registry.add({.kind = "cross_entropy",
                .role = OperatorRole::kLoss,
                .min_inputs = 5,
                .max_inputs = 5,
                .attributes = {{"ignore_index", kInteger, kOptional},
                               {"smoothing", kReal, kOptional},
                               {"classes", kInteger, kOptional}},
                .infer = infer_cross_entropy,
                .work = cross_entropy_work,
                .signatures = cross_entropy_rows,
                .gradient = cross_entropy_gradient,
                .ids = label_input(4, IdInput::Outside::kIgnored),
                .examples = [] {
                  return std::vector<OperatorExample>{
                      {.inputs = {logits(), row(), row(), row(), labels()},
                       .attributes = ignoring(),
                       .ranges = {kAnyLogit, kMax, kSum, kAnyLogit, kLabel}}};
                }});
  registry.add({.kind = "cross_entropy_grad",
                .min_inputs = 5,
                .max_inputs = 5,
                .attributes = {{"ignore_index", kInteger, kOptional},
                               {"smoothing", kReal, kOptional},
                               {"classes", kInteger, kOptional}},
                .infer = infer_cross_entropy_grad,
                .work = elementwise_pass<4>,
                .signatures = cross_entropy_grad_rows,
                .needs_offsets = true,
                .ids = label_input(3, IdInput::Outside::kIgnored),
                .examples = [] {
                  OperatorExample plain{.inputs = {logits(), row(), row(), labels(), f64(Shape())},
                                        .attributes = ignoring(),
                                        .ranges = {kAnyLogit, kMax, kSum, kLabel, kAnyLogit}};
                  OperatorExample smoothed = plain;
                  smoothed.attributes.set("smoothing", 0.25);
                  smoothed.attributes.set("classes", kClasses);
                  return std::vector<OperatorExample>{plain, smoothed};
                }});
}

}  // namespace sextant
