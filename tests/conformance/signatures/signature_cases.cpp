// Derived cases keep the attributes; the operator's shape rule decides whether they make sense.
#include "tests/conformance/signatures/signature_cases.h"

#include "core/base/error.h"

#include <algorithm>

namespace sextant {
namespace {

std::string text_of(const OperatorDef& def, std::size_t example,
                    const std::vector<TensorType>& inputs) {
  std::string text = def.kind + " #" + std::to_string(example) + " (";
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    text += i == 0 ? "" : ", ";
    text += to_string(inputs[i].shape) + " " + std::string(to_string(inputs[i].dtype));
  }
  return text + ")";
}

SignatureCase case_of(const OperatorDef& def, std::size_t example, OperatorExample on) {
  SignatureCase made{.def = &def,
                     .name = text_of(def, example, on.inputs),
                     .example = example,
                     .on = std::move(on),
                     .outputs = {},
                     .rows = {}};
  made.outputs = def.infer(made.on.inputs, made.on.attributes);
  made.rows = def.signatures(made.on.inputs, made.outputs, made.on.attributes);
  std::erase_if(made.rows, [](const SbpSignature& row) { return row.ring != 0; });
  return made;
}

// A relative of a case: it counts only if the operator accepts the types and runs on them.
std::optional<SignatureCase> derived(const SignatureCase& original, OperatorExample on) {
  try {
    SignatureCase made = case_of(*original.def, original.example, std::move(on));
    Random random("derived");
    run_globally(made, Shares::kIntegers, random);
    return made;
  } catch (const Error&) {
    return std::nullopt;
  }
}

using Limits = std::pair<std::int64_t, std::int64_t>;

// Without a range integers are no indices: any number of their type will do.
Piece random_piece(const TensorType& type, const std::optional<Limits>& given, Shares shares,
                   Random& random) {
  const std::int64_t unit = shares == Shares::kFractions && is_floating(type.dtype) ? 16 : 1;
  std::vector<double> values(static_cast<std::size_t>(type.shape.elements()));
  if (shares == Shares::kExtremes && !given && is_integer(type.dtype)) {
    for (double& value : values) value = extreme(type.dtype, random);
    return whole(type, std::move(values));
  }
  const Limits range = type.dtype == DType::kBool ? Limits{0, 1} : given.value_or(Limits{-3, 3});
  for (double& value : values)
    value = static_cast<double>(random.integer(unit * range.first, unit * range.second)) /
            static_cast<double>(unit);
  return whole(type, std::move(values));
}

}  // namespace

bool SignatureCase::is_state(std::size_t output) const {
  const std::vector<std::size_t>& states = def->state_outputs;
  return std::find(states.begin(), states.end(), output) != states.end();
}

std::vector<SignatureCase> example_cases(const OperatorDef& def) {
  std::vector<SignatureCase> cases;
  if (def.examples == nullptr) return cases;
  for (OperatorExample& example : def.examples())
    cases.push_back(case_of(def, cases.size(), std::move(example)));
  return cases;
}

std::optional<SignatureCase> with_extents(const SignatureCase& original,
                                          const std::function<std::int64_t(std::int64_t)>& change) {
  OperatorExample on = original.on;
  for (TensorType& input : on.inputs) {
    std::vector<std::int64_t> extents = input.shape.extents();
    std::transform(extents.begin(), extents.end(), extents.begin(), change);
    input.shape = Shape(std::move(extents));
  }
  if (on.inputs == original.on.inputs) return std::nullopt;
  return derived(original, std::move(on));
}

std::optional<SignatureCase> with_dtype(const SignatureCase& original, DType dtype) {
  OperatorExample on = original.on;
  for (TensorType& input : on.inputs)
    if (input.dtype == DType::kF64) input.dtype = dtype;
  if (on.inputs == original.on.inputs) return std::nullopt;
  return derived(original, std::move(on));
}

bool is_counted(const SignatureCase& on, std::int64_t extent) {
  for (std::size_t i = 0; i < on.on.ranges.size(); ++i)
    if (!is_floating(on.on.inputs[i].dtype) && on.on.ranges[i].second + 1 == extent) return true;
  return false;
}

GlobalRun run_globally(const SignatureCase& on, Shares values, Random& random) {
  GlobalRun run;
  for (std::size_t i = 0; i < on.on.inputs.size(); ++i) {
    const std::optional<Limits> range =
        on.on.ranges.empty() ? std::nullopt : std::optional(on.on.ranges[i]);
    run.inputs.push_back(random_piece(on.on.inputs[i], range, values, random));
  }
  for (std::size_t i = 0; i < on.outputs.size(); ++i)
    run.before.push_back(on.is_state(i) ? random_piece(on.outputs[i], Limits{0, 3}, values, random)
                                        : blank(on.outputs[i]));
  run.outputs = run.before;
  run_operator(on.def->kind, on.on.attributes, run.inputs, run.outputs);
  return run;
}

std::string to_string(const SbpSignature& row) {
  std::string text;
  for (const Sbp& word : row.inputs) text += to_string(word) + " ";
  text += "->";
  for (const Sbp& word : row.outputs) text += " " + to_string(word);
  return text;
}

}  // namespace sextant
