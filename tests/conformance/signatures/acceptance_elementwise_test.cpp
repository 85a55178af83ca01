// Acceptance cases about functions of partial values, with their given numbers: a constant added to
// a sum (G10), a norm (G11), max, min, relu, abs (G12), products (G13). Behind them one law: an
// element-wise operator claims a row of partial sums where the function is linear, and nowhere
// else.
#include "core/graphs/operator.h"
#include "tests/conformance/operators/operator_runner.h"
#include "tests/conformance/operators/sharding.h"
#include "tests/conformance/signatures/signature_cases.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace sextant::acceptance_elementwise_test {
namespace {

using Values = std::vector<double>;

const Sbp kB = Sbp::broadcast(), kP = Sbp::partial();

Piece f64(Values values) {
  const auto extent = static_cast<std::int64_t>(values.size());
  return whole({{extent}, DType::kF64}, std::move(values));
}

std::vector<TensorType> types_of(const std::vector<Piece>& inputs) {
  std::vector<TensorType> types;
  for (const Piece& input : inputs) types.push_back(input.global);
  return types;
}

Piece apply(const std::string& kind, const std::vector<Piece>& inputs,
            const Attributes& attributes = {}) {
  std::vector<Piece> outputs;
  for (const TensorType& type : builtin_operators().get(kind).infer(types_of(inputs), attributes))
    outputs.push_back(blank(type));
  run_operator(kind, attributes, inputs, outputs);
  return outputs[0];
}

Piece sum(const std::vector<Piece>& parts) {
  Piece total = parts[0];
  for (std::size_t part = 1; part < parts.size(); ++part)
    for (std::size_t i = 0; i < total.values.size(); ++i) total.values[i] += parts[part].values[i];
  return total;
}

bool claims(const std::string& kind, const std::vector<Piece>& inputs, const SbpSignature& row,
            const Attributes& attributes = {}) {
  const OperatorDef& def = builtin_operators().get(kind);
  const std::vector<TensorType> types = types_of(inputs);
  const std::vector<SbpSignature> rows =
      def.signatures(types, def.infer(types, attributes), attributes);
  return std::find(rows.begin(), rows.end(), row) != rows.end();
}

// A function of one partial tensor, part by part, which its operator must claim.
Values part_by_part(const std::string& kind, const std::vector<Piece>& parts,
                    const Attributes& attributes = {}) {
  REQUIRE(claims(kind, {parts[0]}, {{kP}, {kP}}, attributes));
  std::vector<Piece> results;
  for (const Piece& part : parts) results.push_back(apply(kind, {part}, attributes));
  return sum(results).values;
}

// A function of one partial tensor that is not linear: no row lets a partial sum in, the sum first
// gives `right`, and part by part would give `wrong`.
void check_refused(const std::string& kind, const std::vector<Piece>& parts, const Values& right,
                   const Values& wrong, const Attributes& attributes = {}) {
  CAPTURE(kind);
  const OperatorDef& def = builtin_operators().get(kind);
  const std::vector<TensorType> types = {parts[0].global};
  for (const SbpSignature& row : def.signatures(types, def.infer(types, attributes), attributes))
    CHECK(row.inputs[0] != kP);
  CHECK(apply(kind, {sum(parts)}, attributes).values == right);
  std::vector<Piece> results;
  for (const Piece& part : parts) results.push_back(apply(kind, {part}, attributes));
  CHECK(sum(results).values == wrong);
}

TEST_CASE("G10: a constant is added to a sum of parts once, a factor goes to every part") {
  const Attributes all = {{"dims", std::vector<std::int64_t>{0}}};
  const std::vector<Piece> parts = {apply("reduce_sum", {f64({0, 1, 2, 3, 4})}, all),
                                    apply("reduce_sum", {f64({5, 6, 7, 8, 9})}, all)};
  CHECK(parts[0].values == Values{10});
  CHECK(parts[1].values == Values{35});
  CHECK(claims("reduce_sum", {f64(Values(10))}, {{Sbp::split(0)}, {kP}}, all));
  check_refused("add_scalar", parts, {55}, {65}, {{"value", 10.0}});
  check_refused("add_scalar", parts, {35}, {25}, {{"value", -10.0}});
  const std::vector<Piece> negated = {apply("neg", {parts[0]}), apply("neg", {parts[1]})};
  CHECK(part_by_part("neg", parts) == Values{-45});
  check_refused("add_scalar", negated, {-35}, {-25}, {{"value", 10.0}});
  CHECK(part_by_part("scale", parts, {{"factor", 10.0}}) == Values{450});
  CHECK(part_by_part("scale", parts, {{"factor", 0.2}}) == Values{9});
}

TEST_CASE("G10: the constant as a tensor is partial too, or the sum is whole") {
  const Piece s = whole({{}, DType::kF64}, {45}), ten = whole({{}, DType::kF64}, {10});
  const Piece zero = whole({{}, DType::kF64}, {0}), five = whole({{}, DType::kF64}, {5});
  for (const char* kind : {"add", "sub"}) {
    CHECK(claims(kind, {s, ten}, {{kP, kP}, {kP}}));
    CHECK(!claims(kind, {s, ten}, {{kP, kB}, {kP}}));
    CHECK(!claims(kind, {s, ten}, {{kB, kP}, {kP}}));
  }
  const Piece first = whole({{}, DType::kF64}, {10}), second = whole({{}, DType::kF64}, {35});
  const auto both = [&](const char* kind, const Piece& a, const Piece& b, const Piece& c,
                        const Piece& d) {
    return sum({apply(kind, {a, b}), apply(kind, {c, d})}).values;
  };
  CHECK(both("add", first, ten, second, zero) == Values{55});
  CHECK(both("sub", first, ten, second, zero) == Values{35});
  CHECK(both("sub", ten, first, zero, second) == Values{-35});
  // Every part times or over the whole.
  for (const char* kind : {"mul", "div"}) CHECK(claims(kind, {s, five}, {{kP, kB}, {kP}}));
  CHECK(both("mul", first, ten, second, ten) == Values{450});
  CHECK(both("div", first, five, second, five) == Values{9});
  CHECK(!claims("div", {s, five}, {{kB, kP}, {kP}}));
}

TEST_CASE("G11: a norm is taken of the sum, not summed from norms") {
  const Attributes all = {{"dims", std::vector<std::int64_t>{0}}};
  const auto norm = [&](const Piece& x) {
    return apply("sqrt", {apply("reduce_sum", {apply("square", {x})}, all)}).values[0];
  };
  const std::vector<Piece> parts = {f64({1, 3}), f64({2, 1})};
  CHECK(norm(sum(parts)) == 5.0);
  CHECK(std::abs(norm(parts[0]) + norm(parts[1]) - 5.398346) < 5e-7);
  check_refused("square", parts, {9, 16}, {5, 10});
  CHECK(!claims("sqrt", {parts[0]}, {{kP}, {kP}}));
  for (const char* kind : {"mul", "reduce_dot"})
    CHECK(!claims(kind, {parts[0], parts[0]}, {{kP, kP}, {kP}},
                  kind == std::string("mul") ? Attributes{} : all));
}

TEST_CASE("G12: max, min, relu and abs of a partial sum see the sum") {
  const std::vector<Piece> parts = {f64({3, -2}), f64({-1, 4})};
  const Attributes all = {{"dims", std::vector<std::int64_t>{0}}};
  check_refused("reduce_max", parts, {2}, {7}, all);   // 3 + 4
  check_refused("reduce_min", parts, {2}, {-3}, all);  // -2 - 1
  check_refused("relu", parts, {2, 2}, {3, 4});
  check_refused("abs", parts, {2, 2}, {4, 6});
  for (const char* kind : {"maximum", "minimum"})
    for (const SbpSignature& row :
         {SbpSignature{{kP, kB}, {kP}}, SbpSignature{{kB, kP}, {kP}}, SbpSignature{{kP, kP}, {kP}}})
      CHECK(!claims(kind, {parts[0], parts[1]}, row));
}

TEST_CASE("G13: of two factors one may be partial") {
  const auto matrix = [](double value) { return whole({{1, 1}, DType::kF64}, {value}); };
  const Piece a = matrix(1 + 3), b = matrix(2 + 4);
  for (const char* kind : {"matmul", "mul"}) {
    CHECK(!claims(kind, {a, b}, {{kP, kP}, {kP}}));
    CHECK(claims(kind, {a, b}, {{kP, kB}, {kP}}));
    CHECK(claims(kind, {a, b}, {{kB, kP}, {kP}}));
    const auto value = [&](const Piece& x, const Piece& y) { return apply(kind, {x, y}); };
    CHECK(value(a, b).values == Values{24});
    CHECK(sum({value(matrix(1), b), value(matrix(3), b)}).values == Values{24});
    CHECK(sum({value(a, matrix(2)), value(a, matrix(4))}).values == Values{24});
    CHECK(sum({value(matrix(1), matrix(2)), value(matrix(3), matrix(4))}).values == Values{14});
  }
}

// The law. Parts are drawn without knowing their sum: in f64 with 30 bits after the point, so that
// every rounding to a narrower type shows; elsewhere quarters, which any floating type adds
// exactly.
Piece drawn(const SignatureCase& on, std::size_t input, Random& random) {
  const TensorType& type = on.on.inputs[input];
  const std::int64_t unit = type.dtype == DType::kF64 ? std::int64_t{1} << 30
                            : is_floating(type.dtype) ? 4
                                                      : 1;
  std::pair<std::int64_t, std::int64_t> range =
      on.on.ranges.empty() ? std::pair<std::int64_t, std::int64_t>{-3, 3} : on.on.ranges[input];
  if (type.dtype == DType::kBool) range = {0, 1};
  Piece piece = blank(type);
  for (double& value : piece.values)
    value = static_cast<double>(random.integer(range.first * unit, range.second * unit)) /
            static_cast<double>(unit);
  return piece;
}

// f(sum of parts) = sum of f(parts), the inputs that are not `partial` the same for all. Nothing
// where f is 0 everywhere: that shows nothing.
std::optional<bool> is_linear(const SignatureCase& on, const std::vector<bool>& partial,
                              std::int64_t num_parts, Random& random) {
  std::vector<Piece> inputs, results;
  for (std::size_t i = 0; i < partial.size(); ++i) inputs.push_back(drawn(on, i, random));
  std::vector<std::vector<Piece>> parts;  // by input
  for (std::size_t i = 0; i < partial.size(); ++i) {
    parts.emplace_back(static_cast<std::size_t>(num_parts), inputs[i]);
    if (!partial[i]) continue;
    for (Piece& part : parts[i]) part = drawn(on, i, random);
    inputs[i] = sum(parts[i]);
  }
  for (std::size_t part = 0; part < static_cast<std::size_t>(num_parts); ++part) {
    std::vector<Piece> local;
    for (const std::vector<Piece>& of_input : parts) local.push_back(of_input[part]);
    results.push_back(apply(on.def->kind, local, on.on.attributes));
  }
  const Values found = sum(results).values,
               wanted = apply(on.def->kind, inputs, on.on.attributes).values;
  const auto is_zero = [](double value) { return value == 0.0; };
  if (std::all_of(found.begin(), found.end(), is_zero) &&
      std::all_of(wanted.begin(), wanted.end(), is_zero))
    return std::nullopt;
  const double largest = largest_of(wanted);
  for (std::size_t i = 0; i < found.size(); ++i)
    if (!(std::abs(found[i] - wanted[i]) <= 1e-10 * largest)) return false;
  return true;
}

bool claims_sum(const SignatureCase& on, const std::vector<bool>& partial) {
  SbpSignature row{std::vector<Sbp>(partial.size(), kB), {kP}};
  for (std::size_t i = 0; i < partial.size(); ++i)
    if (partial[i]) row.inputs[i] = kP;
  return std::find(on.rows.begin(), on.rows.end(), row) != on.rows.end();
}

// Sums of bools are no sums of numbers: no row may claim them.
bool has_partial_bool(const SignatureCase& on, const std::vector<bool>& partial) {
  for (std::size_t i = 0; i < partial.size(); ++i)
    if (partial[i] && on.on.inputs[i].dtype == DType::kBool) return true;
  return on.outputs[0].dtype == DType::kBool;
}

bool has_partial_integer(const SignatureCase& on, const std::vector<bool>& partial) {
  for (std::size_t i = 0; i < partial.size(); ++i)
    if (partial[i] && is_integer(on.on.inputs[i].dtype)) return true;
  return false;
}

struct Verdicts {
  int linear = 0, not_linear = 0;
};

void check_case(const SignatureCase& on, Verdicts& verdicts) {
  const std::size_t inputs = on.on.inputs.size();
  for (std::size_t mask = 1; mask < std::size_t{1} << inputs; ++mask) {
    std::vector<bool> partial;
    for (std::size_t i = 0; i < inputs; ++i) partial.push_back((mask >> i & 1) == 1);
    CAPTURE(on.name);
    CAPTURE(mask);
    if (has_partial_bool(on, partial)) {
      CHECK(!claims_sum(on, partial));
      continue;
    }
    // Parts of labels are no labels.
    if (on.on.attributes.contains("ignore_index") && partial[3]) {
      CHECK(!claims_sum(on, partial));
      continue;
    }
    Random random(on.name + std::to_string(mask));
    const std::optional<bool> linear = is_linear(on, partial, 3, random);
    if (!linear) continue;
    // Integers saturate at ends that these numbers do not reach: linear here, they need not claim
    // it.
    if (is_integer(on.outputs[0].dtype) || has_partial_integer(on, partial)) {
      CHECK((*linear || !claims_sum(on, partial)));
      continue;
    }
    CHECK(claims_sum(on, partial) == *linear);
    ++(*linear ? verdicts.linear : verdicts.not_linear);
  }
}

TEST_CASE("element-wise operators pass partial sums where they are linear and nowhere else") {
  Verdicts verdicts;
  const OperatorRegistry& registry = builtin_operators();
  for (const std::string& kind : registry.kinds())
    for (const SignatureCase& on : example_cases(registry.get(kind))) {
      const Work work = on.def->work(on.on.inputs, on.outputs, on.on.attributes);
      const bool is_empty = on.outputs.empty() || on.outputs[0].shape.elements() == 0;
      // A state that is carried on is 0 in these examples: what updates it looks linear here alone.
      const bool carries_state = on.on.attributes.contains("parameter");
      if (work.kernel == "elementwise" && on.outputs.size() == 1 && !is_empty && !carries_state)
        check_case(on, verdicts);
    }
  MESSAGE(verdicts.linear, " linear, ", verdicts.not_linear, " not");
  CHECK(verdicts.linear > 40);
  CHECK(verdicts.not_linear > 120);
}

}  // namespace
}  // namespace sextant::acceptance_elementwise_test
