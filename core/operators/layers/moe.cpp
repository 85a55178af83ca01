// Mixture of experts: choice of experts, tokens to experts (dispatch) and back (combine). Tokens
// come in groups, [G, T, h]; the places of an expert are counted within a group in token order, so
// the groups of a batch can be split without a word between devices. E experts, C places, k
// choices.
//
// | kind(operands) | words in | words out | |
// |---|---|---|---|
// | top_k(x [.., E]) | S(d), d not the last | S(d) both | |
// | top_k_grad(indices, dvalues) | S(d) both | S(d) | |
// |  | S(last) both | P(sum) | choices |
// |  | B, P(sum) | P(sum) | |
// | expert_position(experts) | S(0) | S(0) | groups: a place depends on all earlier tokens of one |
// | moe_dispatch(x, experts, positions, [weights]) | S(0) all | S(1) | groups |
// |  | S(1) all | P(sum) | tokens of a group: each place is filled by one of them |
// |  | B, S(2), S(2), [S(2)] | P(sum) | choices |
// |  | S(2), B, B, [B] | S(3) | hidden |
// |  | x or weights P(sum), the rest B | P(sum) | bilinear |
// | moe_combine(y, experts, positions, [weights]) | S(1), the rest S(0) | S(0) | groups |
// |  | B, the rest S(1) | S(1) | tokens |
// |  | B, the rest S(2) | P(sum) | choices |
// |  | S(0) or S(2), the rest B | P(sum) | experts or places: who has the place gives its share |
// |  | S(3), the rest B | S(2) | hidden |
// |  | y or weights P(sum), the rest B | P(sum) | bilinear |
// | moe_weight_grad(y, d, experts, positions) | S(1), the rest S(0) | S(0) | groups |
// |  | B, the rest S(1) | S(1) | tokens |
// |  | B, B, S(2), S(2) | S(2) | choices |
// |  | S(0) or S(2), the rest B | P(sum) | experts or places |
// |  | S(3), S(2), B, B | P(sum) | hidden: a dot product |
// |  | y or d P(sum), the rest B | P(sum) | bilinear |
//
// Expert parallel: dispatch by groups gives [E, G, C, h] as S(1), experts want S(0), combine by
// groups wants S(1) again: two all-to-alls that boxing puts in. Dispatch and combine are each
// other's gradients.
#include "core/operators/layers/moe.h"

#include "core/base/check.h"
#include "core/graphs/operator.h"
#include "core/operators/families.h"
#include "core/operators/rules.h"

#include <cmath>
#include <limits>
#include <string>
#include <utility>

namespace sextant {
namespace {

const Sbp kB = kBroadcast, kP = kPartialSum;
Sbp s(std::size_t dim) { return Sbp::split(dim); }

// Choice of experts.

std::vector<TensorType> infer_top_k(Types inputs, const Attributes& attributes) {
  const TensorType& x = inputs[0];
  require_floating("top_k", "x", x);
  require_min_rank("top_k", "x", x, 1);
  const std::int64_t k = attributes.integer("k");
  require(k >= 1 && k <= last_extent(x.shape), ErrorCode::kBadInput,
          "top_k: k is {}, wanted 1 to {} as x {} has", k, last_extent(x.shape), to_text(x));
  const Shape chosen = x.shape.with_extent(x.shape.rank() - 1, k);
  return {{.shape = chosen, .dtype = x.dtype}, {.shape = chosen, .dtype = DType::kI32}};
}

Work top_k_work(Types inputs, Types outputs, const Attributes& attributes) {
  return elementwise_work(inputs, outputs, static_cast<Flops>(attributes.integer("k")),
                          "reduction");
}

Rows top_k_rows(Types inputs, Types, const Attributes&) {
  Rows rows{all_broadcast(1, 2)};
  for (std::size_t dim = 0; dim + 1 < inputs[0].shape.rank(); ++dim)
    rows.push_back({{s(dim)}, {s(dim), s(dim)}});
  return rows;
}

void top_k_gradient(GradientContext& context) {
  const std::int64_t classes = last_extent(context.graph().tensor(context.input(0)).type.shape);
  context.set_input_gradient(
      0, context.add("top_k_grad", {context.output(1), *context.output_gradient(0)},
                     {{"classes", classes}}, 0));
}

std::vector<TensorType> infer_top_k_grad(Types inputs, const Attributes& attributes) {
  const TensorType &indices = inputs[0], &dvalues = inputs[1];
  require_integer("top_k_grad", "indices", indices);
  require_floating("top_k_grad", "dvalues", dvalues);
  require_min_rank("top_k_grad", "dvalues", dvalues, 1);
  require_shape("top_k_grad", "indices", indices, dvalues.shape);
  const std::size_t last = dvalues.shape.rank() - 1;
  return {{.shape = dvalues.shape.with_extent(last, attributes.integer("classes")),
           .dtype = dvalues.dtype}};
}

Work top_k_grad_work(Types inputs, Types outputs, const Attributes&) {
  return elementwise_work(inputs, outputs, 1, "embedding");
}

Rows top_k_grad_rows(Types inputs, Types, const Attributes&) {
  const std::size_t last = inputs[0].shape.rank() - 1;
  Rows rows{all_broadcast(2, 1)};
  for (std::size_t dim = 0; dim < last; ++dim) rows.push_back({{s(dim), s(dim)}, {s(dim)}});
  rows.push_back({{s(last), s(last)}, {kP}});
  rows.push_back({{kB, kP}, {kP}});
  return rows;
}

// Places.

void require_choices(std::string_view kind, std::string_view operand, const TensorType& choices) {
  require_integer(kind, operand, choices);
  require(choices.shape.rank() == 3, ErrorCode::kBadInput,
          "{}: {} is {}, wanted [groups, tokens, choices]", kind, operand, to_text(choices));
}

std::vector<TensorType> infer_position(Types inputs, const Attributes& attributes) {
  require_choices("expert_position", "experts", inputs[0]);
  require(attributes.integer("experts") >= 1, ErrorCode::kBadInput,
          "expert_position: {} experts, wanted at least one", attributes.integer("experts"));
  return {{.shape = inputs[0].shape, .dtype = DType::kI32}};
}

Work position_work(Types inputs, Types outputs, const Attributes&) {
  return elementwise_work(inputs, outputs, 0, "embedding");
}

Rows position_rows(Types, Types, const Attributes&) {
  return {all_broadcast(1, 1), {{s(0)}, {s(0)}}};
}

// Dispatch, combine and the gradient of the weights. Tokens [G, T, h]; routing is experts,
// positions and perhaps weights, [G, T, k].

void require_tokens(std::string_view kind, std::string_view operand, const TensorType& tokens,
                    const TensorType& experts) {
  require_floating(kind, operand, tokens);
  require(tokens.shape.rank() == 3 && leading_dims(tokens.shape) == leading_dims(experts.shape),
          ErrorCode::kBadInput, "{}: {} is {}, wanted [groups, tokens, hidden] with experts {}",
          kind, operand, to_text(tokens), to_text(experts));
}

void require_places(std::string_view kind, const TensorType& y, const TensorType& experts) {
  require_floating(kind, "y", y);
  require(y.shape.rank() == 4 && y.shape[1] == experts.shape[0], ErrorCode::kBadInput,
          "{}: y is {}, wanted [experts, groups, capacity, hidden] with the groups of {}", kind,
          to_text(y), to_text(experts));
}

// inputs[1], inputs[2] and, if there, inputs[3].
void require_routing(std::string_view kind, Types inputs) {
  require_choices(kind, "experts", inputs[1]);
  require_integer(kind, "positions", inputs[2]);
  require_shape(kind, "positions", inputs[2], inputs[1].shape);
  if (inputs.size() < 4) return;
  require_same_dtype(kind, "weights", inputs[3], "the tokens", inputs[0]);
  require_shape(kind, "weights", inputs[3], inputs[1].shape);
}

std::vector<TensorType> infer_dispatch(Types inputs, const Attributes& attributes) {
  constexpr std::string_view kind = "moe_dispatch";
  require_routing(kind, inputs);
  require_tokens(kind, "x", inputs[0], inputs[1]);
  const std::int64_t experts = attributes.integer("experts");
  const std::int64_t capacity = attributes.integer("capacity");
  require(experts >= 1 && capacity >= 1, ErrorCode::kBadInput,
          "{}: {} experts of capacity {}, wanted at least one of each", kind, experts, capacity);
  const Shape& x = inputs[0].shape;
  return {{.shape = {experts, x[0], capacity, x[2]}, .dtype = inputs[0].dtype}};
}

std::vector<TensorType> infer_combine(Types inputs, const Attributes&) {
  constexpr std::string_view kind = "moe_combine";
  require_routing(kind, inputs);
  require_places(kind, inputs[0], inputs[1]);
  const Shape& experts = inputs[1].shape;
  return {{.shape = {experts[0], experts[1], inputs[0].shape[3]}, .dtype = inputs[0].dtype}};
}

std::vector<TensorType> infer_weight_grad(Types inputs, const Attributes&) {
  constexpr std::string_view kind = "moe_weight_grad";
  const TensorType &y = inputs[0], &d = inputs[1];
  require_routing(kind, inputs.last(3));
  require_places(kind, y, inputs[2]);
  require_tokens(kind, "d", d, inputs[2]);
  require_same_dtype(kind, "d", d, "y", y);
  require(d.shape[2] == y.shape[3], ErrorCode::kBadInput,
          "{}: d is {} and y is {}: wanted the same hidden extent", kind, to_text(d), to_text(y));
  return {{.shape = inputs[2].shape, .dtype = y.dtype}};
}

// Touches k rows per token, whatever the number of experts.
Work moving_work(Types inputs, Types outputs, std::string kernel) {
  return streaming_work(inputs, outputs, 2 * static_cast<Flops>(outputs[0].shape.elements()),
                        std::move(kernel));
}

// Which choice fills a place is searched.
Work dispatch_work(Types inputs, Types outputs, const Attributes&) {
  return moving_work(inputs, outputs, "routing");
}

Work combine_work(Types inputs, Types outputs, const Attributes&) {
  return moving_work(inputs, outputs, "combination");
}

Work weight_grad_work(Types inputs, Types outputs, const Attributes&) {
  return moving_work(inputs, outputs, "embedding");
}

// `first` for the tokens or places, `rest` for the routing.
SbpSignature row_of(Types inputs, Sbp first, Sbp rest, Sbp out) {
  std::vector<Sbp> words(inputs.size(), rest);
  words[0] = first;
  return {.inputs = std::move(words), .outputs = {out}};
}

// All B, and a pending sum in the first input or the weights.
void add_linear_rows(Types inputs, Rows& rows) {
  rows.push_back(row_of(inputs, kP, kB, kP));
  if (inputs.size() < 4) return;
  rows.push_back(all_broadcast(4, 1));
  rows.back().inputs[3] = kP;
  rows.back().outputs[0] = kP;
}

Rows dispatch_rows(Types inputs, Types, const Attributes&) {
  Rows rows{all_broadcast(inputs.size(), 1), row_of(inputs, s(0), s(0), s(1)),
            row_of(inputs, s(1), s(1), kP), row_of(inputs, kB, s(2), kP),
            row_of(inputs, s(2), kB, s(3))};
  add_linear_rows(inputs, rows);
  return rows;
}

Rows combine_rows(Types inputs, Types, const Attributes&) {
  Rows rows{all_broadcast(inputs.size(), 1), row_of(inputs, s(1), s(0), s(0)),
            row_of(inputs, kB, s(1), s(1)),  row_of(inputs, kB, s(2), kP),
            row_of(inputs, s(0), kB, kP),    row_of(inputs, s(2), kB, kP),
            row_of(inputs, s(3), kB, s(2))};
  add_linear_rows(inputs, rows);
  return rows;
}

Rows weight_grad_rows(Types inputs, Types, const Attributes&) {
  return {all_broadcast(inputs.size(), 1), row_of(inputs, s(1), s(0), s(0)),
          row_of(inputs, kB, s(1), s(1)),  {{kB, kB, s(2), s(2)}, {s(2)}},
          row_of(inputs, s(0), kB, kP),    row_of(inputs, s(2), kB, kP),
          {{s(3), s(2), kB, kB}, {kP}},    row_of(inputs, kP, kB, kP),
          {{kB, kP, kB, kB}, {kP}}};
}

// The routing of the operator that is being differentiated, behind `first`.
std::vector<TensorId> with_routing(const GradientContext& context, TensorId first) {
  std::vector<TensorId> inputs{first};
  for (std::size_t i = 1; i < context.op().inputs.size(); ++i) inputs.push_back(context.input(i));
  return inputs;
}

void set_weight_gradient(GradientContext& context, TensorId places, TensorId tokens) {
  if (context.op().inputs.size() < 4 || !context.wants(3)) return;
  context.set_input_gradient(
      3,
      context.add("moe_weight_grad", {places, tokens, context.input(1), context.input(2)}, {}, 3));
}

void dispatch_gradient(GradientContext& context) {
  const TensorId dy = *context.output_gradient(0);
  if (context.wants(0))
    context.set_input_gradient(0, context.add("moe_combine", with_routing(context, dy), {}, 0));
  set_weight_gradient(context, dy, context.input(0));
}

void combine_gradient(GradientContext& context) {
  const TensorId d = *context.output_gradient(0);
  const Shape y = context.graph().tensor(context.input(0)).type.shape;
  if (context.wants(0))
    context.set_input_gradient(0, context.add("moe_dispatch", with_routing(context, d),
                                              {{"experts", y[0]}, {"capacity", y[2]}}, 0));
  set_weight_gradient(context, context.input(0), d);
}

TensorId append(LogicalGraph& graph, std::string kind, std::string name,
                std::vector<TensorId> inputs, Attributes attributes, int layer) {
  LogicalOp op;
  op.kind = std::move(kind);
  op.name = std::move(name);
  op.inputs = std::move(inputs);
  op.attributes = std::move(attributes);
  op.layer = layer;
  return graph.output(graph.add(std::move(op)));
}

// Choices of no expert are dropped.
IdInput expert_input(std::size_t input, std::int64_t (*experts)(Types, const Attributes&)) {
  return {.input = input, .of = "experts", .count = experts, .outside = IdInput::Outside::kAny};
}

std::int64_t experts_told(Types, const Attributes& attributes) {
  return attributes.integer("experts");
}

std::int64_t experts_of_y(Types inputs, const Attributes&) { return inputs[0].shape[0]; }

std::int64_t classes_told(Types, const Attributes& attributes) {
  return attributes.integer("classes");
}

// Three experts of two places; a place 2 and an expert 3 are dropped.
OperatorExample routed_example(std::vector<TensorType> first, bool is_weighted) {
  const TensorType choices = i32({2, 5, 2});
  OperatorExample example{.inputs = std::move(first), .attributes = {}, .ranges = {}};
  example.ranges.assign(example.inputs.size(), {-3, 3});
  example.inputs.insert(example.inputs.end(), {choices, choices});
  example.ranges.insert(example.ranges.end(), {{0, 3}, {0, 2}});
  if (!is_weighted) return example;
  example.inputs.push_back(f64({2, 5, 2}));
  example.ranges.push_back({-3, 3});
  return example;
}

std::vector<OperatorExample> dispatch_examples() {
  std::vector<OperatorExample> examples{routed_example({f64({2, 5, 3})}, false),
                                        routed_example({f64({2, 5, 3})}, true)};
  for (OperatorExample& example : examples)
    example.attributes = {{"experts", std::int64_t{3}}, {"capacity", std::int64_t{2}}};
  return examples;
}

}  // namespace

std::int64_t expert_capacity(std::int64_t tokens, std::int64_t k, std::int64_t experts,
                             double factor) {
  require(experts >= 1 && factor > 0, ErrorCode::kBadInput,
          "capacity factor {} for {} experts, wanted both positive", factor, experts);
  const double capacity = std::ceil(factor * static_cast<double>(tokens) * static_cast<double>(k) /
                                    static_cast<double>(experts));
  require(capacity <= std::numeric_limits<std::int32_t>::max(), ErrorCode::kBadInput,
          "capacity factor {} makes room for {} tokens per expert, wanted at most {}", factor,
          capacity, std::numeric_limits<std::int32_t>::max());
  return static_cast<std::int64_t>(capacity);
}

Routing route_top_k(LogicalGraph& graph, TensorId probabilities, std::int64_t k,
                    const std::string& name, int layer) {
  const std::int64_t experts = last_extent(graph.tensor(probabilities).type.shape);
  const TensorId weights =
      append(graph, "top_k", name + ".top_k", {probabilities}, {{"k", k}}, layer);
  const TensorId chosen = graph.output(graph.tensor(weights).producer, 1);
  const TensorId positions =
      append(graph, "expert_position", name + ".position", {chosen}, {{"experts", experts}}, layer);
  return {.weights = weights, .experts = chosen, .positions = positions, .num_experts = experts};
}

TensorId dispatch_tokens(LogicalGraph& graph, TensorId x, const Routing& routing,
                         std::int64_t capacity, const std::string& name, int layer) {
  return append(graph, "moe_dispatch", name, {x, routing.experts, routing.positions},
                {{"experts", routing.num_experts}, {"capacity", capacity}}, layer);
}

TensorId combine_tokens(LogicalGraph& graph, TensorId y, const Routing& routing,
                        const std::string& name, int layer) {
  return append(graph, "moe_combine", name,
                {y, routing.experts, routing.positions, routing.weights}, {}, layer);
}

void add_moe(OperatorRegistry& registry) {
  registry.add({.kind = "top_k",
                .attributes = {{"k", kInteger}},
                .infer = infer_top_k,
                .work = top_k_work,
                .signatures = top_k_rows,
                .gradient = top_k_gradient,
                .examples = [] {
                  return std::vector<OperatorExample>{
                      {.inputs = {f64({2, 5, 4})}, .attributes = {{"k", std::int64_t{2}}}},
                      {.inputs = {f64({7})}, .attributes = {{"k", std::int64_t{3}}}}};
                }});
  registry.add({.kind = "top_k_grad",
                .min_inputs = 2,
                .max_inputs = 2,
                .attributes = {{"classes", kInteger}},
                .infer = infer_top_k_grad,
                .work = top_k_grad_work,
                .signatures = top_k_grad_rows,
                .ids = expert_input(0, classes_told),
                .examples = [] {
                  return std::vector<OperatorExample>{{.inputs = {i32({2, 5, 2}), f64({2, 5, 2})},
                                                       .attributes = {{"classes", std::int64_t{4}}},
                                                       .ranges = {{0, 3}, {-3, 3}}}};
                }});
  registry.add({.kind = "expert_position",
                .attributes = {{"experts", kInteger}},
                .infer = infer_position,
                .work = position_work,
                .signatures = position_rows,
                .ids = expert_input(0, experts_told),
                .examples = [] {
                  return std::vector<OperatorExample>{{.inputs = {i32({3, 5, 2})},
                                                       .attributes = {{"experts", std::int64_t{3}}},
                                                       .ranges = {{0, 3}}}};
                }});
  registry.add({.kind = "moe_dispatch",
                .role = OperatorRole::kExpertDispatch,
                .min_inputs = 3,
                .max_inputs = 4,
                .attributes = {{"experts", kInteger}, {"capacity", kInteger}},
                .infer = infer_dispatch,
                .work = dispatch_work,
                .signatures = dispatch_rows,
                .gradient = dispatch_gradient,
                .needs_offsets = true,
                .ids = expert_input(1, experts_told),
                .examples = dispatch_examples});
  registry.add({.kind = "moe_combine",
                .role = OperatorRole::kExpertCombine,
                .min_inputs = 3,
                .max_inputs = 4,
                .infer = infer_combine,
                .work = combine_work,
                .signatures = combine_rows,
                .gradient = combine_gradient,
                .needs_offsets = true,
                .ids = expert_input(1, experts_of_y),
                .examples = [] {
                  return std::vector<OperatorExample>{routed_example({f64({3, 2, 2, 3})}, false),
                                                      routed_example({f64({3, 2, 2, 3})}, true)};
                }});
  registry.add({.kind = "moe_weight_grad",
                .min_inputs = 4,
                .max_inputs = 4,
                .infer = infer_weight_grad,
                .work = weight_grad_work,
                .signatures = weight_grad_rows,
                .needs_offsets = true,
                .ids = expert_input(2, experts_of_y),
                .examples = [] {
                  return std::vector<OperatorExample>{
                      routed_example({f64({3, 2, 2, 3}), f64({2, 5, 3})}, false)};
                }});
}

}  // namespace sextant
