// Norms in pieces, for rows that are split: the count is global and known, sum and centred squares
// are made of shards (P(sum)), and what applies them reads whole statistics. `dims` are the
// normalised ones, so one statistic belongs to each element of x without them; gamma and beta have
// `weight_dims`. A layer norm has its last dim as both, a batch norm all dims but C and C.
//
// The centred form has a mean and beta; without them, a root mean square norm. So `normalize` has
// five inputs or three, and the kinds of its gradient likewise.
//
// s, w: the words of statistics and weights when dim i of x is split: their own split, or B where
// they lack the dim. Sums over dims that are split become P(sum).
//
// | kind(operands) | words in | words out | |
// |---|---|---|---|
// | reduce_squares(x, mean) | S(i), s | s or P(sum) | |
// | normalize(x, mean, rstd, gamma, beta) | S(i), s, s, w, w | S(i) | |
// |  | x, mean, beta P(sum), the rest B | P(sum) | linear in these together |
// | normalize_grad_sums(x, mean, gamma, dy) | S(i), s, w, S(i) | s or P(sum) | |
// |  | dy P(sum), the rest B | both P(sum) | linear in dy |
// |  | x, mean P(sum), the rest B | B, P(sum) | linear in x - mean |
// | normalize_grad_input(x, mean, rstd, gamma, sums, dy) | S(i), s, s, w, s, S(i) | S(i) | sums of_weights: w for s |
// |  | sums and dy P(sum), the rest B | P(sum) | linear in these together |
// | normalize_grad_weight(x, mean, rstd, dy) | S(i), s, s, S(i) | w or P(sum) | |
// |  | dy P(sum), the rest B | both P(sum) | linear in dy |
// |  | x, mean P(sum), the rest B | P(sum), B | linear in x - mean |
//
// And all B everywhere.
#include "core/base/check.h"
#include "core/graphs/logical_graph.h"
#include "core/graphs/operator.h"
#include "core/operators/families.h"
#include "core/operators/reductions/reduced_dims.h"
#include "core/operators/rules.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace sextant {
namespace {

using Integers = std::vector<std::int64_t>;
using Examples = std::vector<OperatorExample>;

// What an operand is to x.
enum class Role : std::uint8_t {
  kElements,    // of the shape and type of x
  kStatistics,  // one per group of elements, of the accumulator type
  kWeights,     // gamma, beta, of the type of x
  kGradients,   // of weights, of the accumulator type
};

struct NamedRole {
  const char* name;
  Role role;
};
using NamedRoles = std::vector<NamedRole>;

// The operands of a kind: those of the root mean square form lack `mean` and `beta` and the like.
struct Form {
  NamedRoles inputs, outputs;
};

constexpr NamedRole kX{"x", Role::kElements}, kDy{"dy", Role::kElements},
    kMean{"mean", Role::kStatistics}, kRstd{"rstd", Role::kStatistics},
    kGamma{"gamma", Role::kWeights}, kBeta{"beta", Role::kWeights},
    kSumG{"sum_g", Role::kStatistics}, kSumGx{"sum_gx", Role::kStatistics},
    kDgamma{"dgamma", Role::kGradients}, kDbeta{"dbeta", Role::kGradients};

struct Dims {
  ReducedDims statistics, weights;

  Dims(std::string_view kind, const Attributes& attributes, std::size_t rank)
      : statistics(kind, attributes, rank),
        weights(ReducedDims::all_but(kind, attributes.integers("weight_dims"), rank)) {}

  const ReducedDims& of(Role role) const {
    return role == Role::kStatistics ? statistics : weights;
  }
  Sbp word(Role role, std::size_t dim) const {
    return role == Role::kElements ? Sbp::split(dim) : of(role).word_of_result(dim);
  }
  TensorType type(Role role, const TensorType& x) const {
    if (role == Role::kElements) return x;
    return {.shape = of(role).result(x.shape),
            .dtype = role == Role::kWeights ? x.dtype : accumulator_type(x.dtype)};
  }
};

Dims dims_of(std::string_view kind, Types inputs, const Attributes& attributes) {
  return Dims(kind, attributes, inputs[0].shape.rank());
}

// Checks all inputs beside x, the first.
std::vector<TensorType> infer_form(std::string_view kind, const Form& form, Types inputs,
                                   const Attributes& attributes) {
  const TensorType& x = inputs[0];
  require_floating(kind, "x", x);
  const Dims dims = dims_of(kind, inputs, attributes);
  for (std::size_t i = 1; i < inputs.size(); ++i)
    require_type(kind, form.inputs[i].name, inputs[i], dims.type(form.inputs[i].role, x));
  std::vector<TensorType> outputs;
  for (const NamedRole& output : form.outputs) outputs.push_back(dims.type(output.role, x));
  return outputs;
}

// All B, then each dim of x split. An output that lacks the dim sums over it.
Rows split_rows(std::string_view kind, const Form& form, Types inputs,
                const Attributes& attributes) {
  const Dims dims = dims_of(kind, inputs, attributes);
  Rows rows{all_broadcast(form.inputs.size(), form.outputs.size())};
  for (std::size_t dim = 0; dim < inputs[0].shape.rank(); ++dim) {
    SbpSignature row;
    for (const NamedRole& input : form.inputs) row.inputs.push_back(dims.word(input.role, dim));
    for (const NamedRole& output : form.outputs) {
      const Sbp word = dims.word(output.role, dim);
      row.outputs.push_back(word.is_broadcast() ? kPartialSum : word);
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

// The named inputs and outputs partial, the others B.
SbpSignature partial_row(const Form& form, std::initializer_list<std::string_view> inputs,
                         std::initializer_list<std::string_view> outputs) {
  const auto words = [](const NamedRoles& operands, std::initializer_list<std::string_view> names) {
    std::vector<Sbp> words;
    for (const NamedRole& operand : operands) {
      const bool is_named = std::find(names.begin(), names.end(), operand.name) != names.end();
      words.push_back(is_named ? kPartialSum : kBroadcast);
    }
    return words;
  };
  return {words(form.inputs, inputs), words(form.outputs, outputs)};
}

void require_count(std::string_view kind, std::size_t found, std::size_t centred,
                   std::size_t without_mean) {
  require(found == centred || found == without_mean, ErrorCode::kBadInput,
          "{}: {} inputs, wanted {} with a mean or {} without", kind, found, centred, without_mean);
}

TensorId gradient_dy(GradientContext& context) {
  const DType dtype = context.graph().tensor(context.input(0)).type.dtype;
  return in_dtype(context, *context.output_gradient(0), dtype, 0);
}

// reduce_squares

std::vector<TensorType> infer_squares(Types inputs, const Attributes& attributes) {
  constexpr std::string_view kind = "reduce_squares";
  require_floating(kind, "x", inputs[0]);
  const ReducedDims dims(kind, attributes, inputs[0].shape.rank());
  const TensorType result{.shape = dims.result(inputs[0].shape),
                          .dtype = accumulator_type(inputs[0].dtype)};
  if (inputs.size() == 2) require_type(kind, "mean", inputs[1], result);
  return {result};
}

Rows squares_rows(Types inputs, Types, const Attributes& attributes) {
  const ReducedDims dims("reduce_squares", attributes, inputs[0].shape.rank());
  Rows rows{all_broadcast(inputs.size(), 1)};
  for (std::size_t dim = 0; dim < dims.rank(); ++dim) {
    const Sbp of_result = dims.word_of_result(dim);
    SbpSignature row{{Sbp::split(dim)}, {dims.contains(dim) ? kPartialSum : of_result}};
    row.inputs.resize(inputs.size(), of_result);
    rows.push_back(std::move(row));
  }
  return rows;
}

// normalize

constexpr std::string_view kNormalize = "normalize";

Form normalize_form(std::size_t num_inputs) {
  require_count(kNormalize, num_inputs, 5, 3);
  const NamedRole y{"y", Role::kElements};
  if (num_inputs == 5) return {{kX, kMean, kRstd, kGamma, kBeta}, {y}};
  return {{kX, kRstd, kGamma}, {y}};
}

bool statistics_are_of_x(const Attributes& attributes) {
  if (!attributes.contains("statistics")) return false;
  const std::string& text = attributes.text("statistics");
  require(text == "given" || text == "of_x", ErrorCode::kBadInput,
          "normalize: statistics are '{}', wanted given or of_x", text);
  return text == "of_x";
}

std::vector<TensorType> infer_normalize(Types inputs, const Attributes& attributes) {
  statistics_are_of_x(attributes);
  return infer_form(kNormalize, normalize_form(inputs.size()), inputs, attributes);
}

Rows normalize_rows(Types inputs, Types, const Attributes& attributes) {
  const Form form = normalize_form(inputs.size());
  Rows rows = split_rows(kNormalize, form, inputs, attributes);
  rows.push_back(partial_row(form, {"x", "mean", "beta"}, {"y"}));
  return rows;
}

// Positions of the operands of the operator that is being differentiated.
struct NormInputs {
  std::optional<std::size_t> mean, beta;
  std::size_t rstd, gamma;
};
NormInputs norm_inputs(const GradientContext& context) {
  if (context.op().inputs.size() == 5) return {.mean = 1, .beta = 4, .rstd = 2, .gamma = 3};
  return {.mean = {}, .beta = {}, .rstd = 1, .gamma = 2};
}

Attributes dims_of_norm(const GradientContext& context) {
  const Attributes& own = context.op().attributes;
  return {{"dims", own.integers("dims")},
          {"keep_dims", own.boolean_or("keep_dims", false)},
          {"weight_dims", own.integers("weight_dims")}};
}

// dgamma and, in the centred form, dbeta.
std::vector<TensorId> add_weight_gradients(GradientContext& context, TensorId dy,
                                           std::size_t for_input) {
  const NormInputs at = norm_inputs(context);
  std::vector<TensorId> inputs{context.input(0)};
  if (at.mean) inputs.push_back(context.input(*at.mean));
  inputs.insert(inputs.end(), {context.input(at.rstd), dy});
  context.add("normalize_grad_weight", std::move(inputs), dims_of_norm(context), for_input);
  std::vector<TensorId> gradients = context.outputs_of_last();
  context.set_input_gradient(at.gamma, gradients[0]);
  if (at.beta) context.set_input_gradient(*at.beta, gradients[1]);
  return gradients;
}

void set_weight_gradients(GradientContext& context, TensorId dy) {
  const NormInputs at = norm_inputs(context);
  if (context.wants(at.gamma) || (at.beta && context.wants(*at.beta)))
    add_weight_gradients(context, dy, at.gamma);
}

// Sums of dy gamma (centred form only) and of dy gamma (x - mean).
std::vector<TensorId> add_sums(GradientContext& context, TensorId dy, std::size_t for_input) {
  const NormInputs at = norm_inputs(context);
  std::vector<TensorId> inputs{context.input(0)};
  if (at.mean) inputs.push_back(context.input(*at.mean));
  inputs.insert(inputs.end(), {context.input(at.gamma), dy});
  context.add("normalize_grad_sums", std::move(inputs), dims_of_norm(context), for_input);
  return context.outputs_of_last();
}

constexpr std::string_view kSumsText = "sums";

// Whether the sums that the gradient for x reads are those of the weights: dgamma and dbeta.
bool sums_are_of_weights(const Attributes& attributes) {
  if (!attributes.contains(kSumsText)) return false;
  const std::string& text = attributes.text(kSumsText);
  require(text == "of_groups" || text == "of_weights", ErrorCode::kBadInput,
          "normalize_grad_input: sums are '{}', wanted of_groups or of_weights", text);
  return text == "of_weights";
}

// As in a batch norm: every weight belongs to the elements of one statistic.
bool weights_are_per_statistic(const GradientContext& context) {
  const Attributes& own = context.op().attributes;
  const std::size_t rank = context.graph().tensor(context.input(0)).type.shape.rank();
  const Dims dims(context.op().kind, own, rank);
  return !own.boolean_or("keep_dims", false) && dims.statistics.reduced() == dims.weights.reduced();
}

// Statistics of x: the gradient of the whole norm, for x; none for the statistics. Where weights
// are per statistic, their gradients are the sums that it needs, up to factors per statistic: x and
// dy are read twice, not three times.
void set_gradient_of_norm(GradientContext& context, TensorId dy) {
  const NormInputs at = norm_inputs(context);
  Attributes attributes = dims_of_norm(context);
  std::vector<TensorId> sums;
  if (weights_are_per_statistic(context)) {
    sums = add_weight_gradients(context, dy, 0);
    std::reverse(sums.begin(), sums.end());
    attributes.set(std::string(kSumsText), std::string("of_weights"));
  } else {
    sums = add_sums(context, dy, 0);
    set_weight_gradients(context, dy);
  }
  std::vector<TensorId> inputs(
      context.op().inputs.begin(),
      context.op().inputs.begin() + static_cast<std::ptrdiff_t>(at.gamma) + 1);
  inputs.insert(inputs.end(), sums.begin(), sums.end());
  inputs.push_back(dy);
  context.set_input_gradient(
      0, context.add("normalize_grad_input", std::move(inputs), std::move(attributes), 0));
}

// Negated before it is summed: inference reduces a pending sum in front of the next operator.
TensorId negative_sum(GradientContext& context, TensorId dx, std::size_t statistic) {
  const DType dtype = context.graph().tensor(context.input(statistic)).type.dtype;
  const Attributes& own = context.op().attributes;
  const TensorId negative = context.add("scale", {dx}, {{"factor", -1.0}}, statistic);
  return context.add("reduce_sum", {negative},
                     {{"dims", own.integers("dims")},
                      {"keep_dims", own.boolean_or("keep_dims", false)},
                      {"out_dtype", std::string(to_string(dtype))}},
                     statistic);
}

// Given statistics: y = (x - mean) rstd gamma + beta in each of its operands; that for the mean is
// the negative sum of that for x.
void set_gradients_of_given(GradientContext& context, TensorId dy) {
  const NormInputs at = norm_inputs(context);
  const bool wants_mean = at.mean && context.wants(*at.mean);
  if (context.wants(0) || wants_mean) {
    const TensorId dx =
        context.add("normalize", {dy, context.input(at.rstd), context.input(at.gamma)},
                    dims_of_norm(context), 0);
    context.set_input_gradient(0, dx);
    if (wants_mean) context.set_input_gradient(*at.mean, negative_sum(context, dx, *at.mean));
  }
  if (context.wants(at.rstd))
    context.set_input_gradient(at.rstd, add_sums(context, dy, at.rstd).back());
}

void normalize_gradient(GradientContext& context) {
  const TensorId dy = gradient_dy(context);
  const bool is_whole = statistics_are_of_x(context.op().attributes);
  if (is_whole && context.wants(0)) return set_gradient_of_norm(context, dy);
  if (!is_whole) set_gradients_of_given(context, dy);
  set_weight_gradients(context, dy);
}

// normalize_grad_sums

constexpr std::string_view kSums = "normalize_grad_sums";

Form sums_form(std::size_t num_inputs) {
  require_count(kSums, num_inputs, 4, 3);
  if (num_inputs == 4) return {{kX, kMean, kGamma, kDy}, {kSumG, kSumGx}};
  return {{kX, kGamma, kDy}, {kSumGx}};
}

std::vector<TensorType> infer_sums(Types inputs, const Attributes& attributes) {
  return infer_form(kSums, sums_form(inputs.size()), inputs, attributes);
}

Rows sums_rows(Types inputs, Types, const Attributes& attributes) {
  const Form form = sums_form(inputs.size());
  Rows rows = split_rows(kSums, form, inputs, attributes);
  rows.push_back(partial_row(form, {"dy"}, {"sum_g", "sum_gx"}));
  rows.push_back(partial_row(form, {"x", "mean"}, {"sum_gx"}));
  return rows;
}

// normalize_grad_input

constexpr std::string_view kGradInput = "normalize_grad_input";

Form grad_input_form(std::size_t num_inputs, bool of_weights) {
  require_count(kGradInput, num_inputs, 7, 5);
  const NamedRole dx{"dx", Role::kElements}, first = of_weights ? kDbeta : kSumG,
                                             last = of_weights ? kDgamma : kSumGx;
  if (num_inputs == 7) return {{kX, kMean, kRstd, kGamma, first, last, kDy}, {dx}};
  return {{kX, kRstd, kGamma, last, kDy}, {dx}};
}
Form grad_input_form(Types inputs, const Attributes& attributes) {
  return grad_input_form(inputs.size(), sums_are_of_weights(attributes));
}

std::vector<TensorType> infer_norm_grad_input(Types inputs, const Attributes& attributes) {
  if (sums_are_of_weights(attributes)) {
    const Dims dims = dims_of(kGradInput, inputs, attributes);
    require(dims.statistics.reduced() == dims.weights.reduced(), ErrorCode::kBadInput,
            "{}: sums of_weights, wanted weights that have the dims of statistics", kGradInput);
  }
  return infer_form(kGradInput, grad_input_form(inputs, attributes), inputs, attributes);
}

Rows piece_grad_input_rows(Types inputs, Types, const Attributes& attributes) {
  const Form form = grad_input_form(inputs, attributes);
  Rows rows = split_rows(kGradInput, form, inputs, attributes);
  rows.push_back(partial_row(form, {"sum_g", "sum_gx", "dbeta", "dgamma", "dy"}, {"dx"}));
  return rows;
}

// normalize_grad_weight

constexpr std::string_view kGradWeight = "normalize_grad_weight";

Form grad_weight_form(std::size_t num_inputs) {
  require_count(kGradWeight, num_inputs, 4, 3);
  if (num_inputs == 4) return {{kX, kMean, kRstd, kDy}, {kDgamma, kDbeta}};
  return {{kX, kRstd, kDy}, {kDgamma}};
}

std::vector<TensorType> infer_norm_grad_weight(Types inputs, const Attributes& attributes) {
  return infer_form(kGradWeight, grad_weight_form(inputs.size()), inputs, attributes);
}

Rows norm_grad_weight_rows(Types inputs, Types, const Attributes& attributes) {
  const Form form = grad_weight_form(inputs.size());
  Rows rows = split_rows(kGradWeight, form, inputs, attributes);
  rows.push_back(partial_row(form, {"dy"}, {"dgamma", "dbeta"}));
  rows.push_back(partial_row(form, {"x", "mean"}, {"dgamma"}));
  return rows;
}

// Examples: a layer norm and a root mean square norm over the last dim, a batch norm.

struct Setting {
  Shape x;
  Integers dims, weight_dims;
};
const std::vector<Setting>& settings() {
  static const std::vector<Setting> all = {{.x = {2, 5, 4}, .dims = {-1}, .weight_dims = {-1}},
                                           {.x = {3, 2, 5}, .dims = {0, 2}, .weight_dims = {1}}};
  return all;
}

Examples examples_of(std::string_view kind, const std::vector<Form>& forms) {
  Examples examples;
  for (const Setting& setting : settings())
    for (const Form& form : forms) {
      const Attributes attributes = {{"dims", setting.dims}, {"weight_dims", setting.weight_dims}};
      const Dims dims(kind, attributes, setting.x.rank());
      OperatorExample example{.inputs = {}, .attributes = attributes, .ranges = {}};
      for (const NamedRole& input : form.inputs)
        example.inputs.push_back(dims.type(input.role, f64(setting.x)));
      examples.push_back(std::move(example));
    }
  return examples;
}

// Those with sums of weights are of the batch norm alone.
Examples norm_grad_input_examples() {
  Examples examples =
      examples_of(kGradInput, {grad_input_form(7, false), grad_input_form(5, false)});
  for (OperatorExample& example :
       examples_of(kGradInput, {grad_input_form(7, true), grad_input_form(5, true)})) {
    if (example.attributes.integers("weight_dims") != settings().back().weight_dims) continue;
    example.attributes.set(std::string(kSumsText), std::string("of_weights"));
    examples.push_back(std::move(example));
  }
  return examples;
}

// Sums of rows of channels go over all other elements, gradients read what they normalize twice.
template <int kFlopsPerElement>
Work sum_pass(Types inputs, Types outputs, const Attributes&) {
  return elementwise_work(inputs, outputs, kFlopsPerElement, "channel_sum");
}

template <int kFlopsPerElement>
Work gradient_pass(Types inputs, Types outputs, const Attributes&) {
  return elementwise_work(inputs, outputs, kFlopsPerElement, "channel_grad");
}

}  // namespace

void add_norm_pieces(OperatorRegistry& registry) {
  registry.add({.kind = "reduce_squares",
                .min_inputs = 1,
                .max_inputs = 2,
                .attributes = {{"dims", kIntegers}, {"keep_dims", kBoolean, kOptional}},
                .infer = infer_squares,
                .work = sum_pass<3>,
                .signatures = squares_rows,
                .examples = [] {
                  const Attributes attributes = {{"dims", Integers{0, 2}}};
                  return Examples{{.inputs = {f64({3, 2, 5}), f64({2})}, .attributes = attributes},
                                  {.inputs = {f64({3, 2, 5})}, .attributes = attributes},
                                  {.inputs = {f64({5, 4}), f64({5, 1})},
                                   .attributes = {{"dims", Integers{-1}}, {"keep_dims", true}}}};
                }});
  registry.add({.kind = std::string(kNormalize),
                .min_inputs = 3,
                .max_inputs = 5,
                .attributes = {{"dims", kIntegers},
                               {"keep_dims", kBoolean, kOptional},
                               {"weight_dims", kIntegers},
                               {"statistics", kText, kOptional}},
                .infer = infer_normalize,
                .work = normalization_pass<4>,
                .signatures = normalize_rows,
                .gradient = normalize_gradient,
                .examples = [] {
                  return examples_of(kNormalize, {normalize_form(5), normalize_form(3)});
                }});
  registry.add({.kind = std::string(kSums),
                .min_inputs = 3,
                .max_inputs = 4,
                .attributes = {{"dims", kIntegers},
                               {"keep_dims", kBoolean, kOptional},
                               {"weight_dims", kIntegers}},
                .infer = infer_sums,
                .work = sum_pass<5>,
                .signatures = sums_rows,
                .examples = [] {
                  return examples_of(kSums, {sums_form(4), sums_form(3)});
                }});
  registry.add({.kind = std::string(kGradInput),
                .min_inputs = 5,
                .max_inputs = 7,
                .attributes = {{"dims", kIntegers},
                               {"keep_dims", kBoolean, kOptional},
                               {"weight_dims", kIntegers},
                               {kSumsText, kText, kOptional}},
                .infer = infer_norm_grad_input,
                .work = gradient_pass<8>,
                .signatures = piece_grad_input_rows,
                .needs_offsets = true,
                .examples = norm_grad_input_examples});
  registry.add({.kind = std::string(kGradWeight),
                .min_inputs = 3,
                .max_inputs = 4,
                .attributes = {{"dims", kIntegers},
                               {"keep_dims", kBoolean, kOptional},
                               {"weight_dims", kIntegers}},
                .infer = infer_norm_grad_weight,
                .work = sum_pass<5>,
                .signatures = norm_grad_weight_rows,
                .examples = [] {
                  return examples_of(kGradWeight, {grad_weight_form(4), grad_weight_form(3)});
                }});
}

}  // namespace sextant
