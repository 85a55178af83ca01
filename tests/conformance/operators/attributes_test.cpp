// Attributes are judged when a graph is built: what a shape rule accepts, its kernel runs. Tried on
// every kind with each optional attribute left out and put in.
#include "core/base/error.h"
#include "core/graphs/operator.h"
#include "tests/conformance/operators/operator_runner.h"

#include <doctest/doctest.h>

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace sextant::attributes_test {
namespace {

// Of an attribute that no example of the kind has.
AttributeValue some_value(AttributeType type) {
  switch (type) {
    case AttributeType::kBoolean:
      return true;
    case AttributeType::kInteger:
      return std::int64_t{1};
    case AttributeType::kReal:
      return 0.25;
    case AttributeType::kText:
      return std::string("f64");
    case AttributeType::kIntegers:
      return std::vector<std::int64_t>{1};
  }
  return true;
}

// The example, and it with one optional attribute less or more.
std::vector<Attributes> variants(const OperatorDef& def, const Attributes& given) {
  std::map<std::string, AttributeValue> seen;
  for (const OperatorExample& example : def.examples())
    for (const auto& [name, value] : example.attributes.entries()) seen.emplace(name, value);
  std::vector<Attributes> all{given};
  for (const AttributeDef& one : def.attributes) {
    const std::string name(one.name);
    if (one.presence == AttributeDef::Presence::kNeeded) continue;
    Attributes other;
    for (const auto& [known, value] : given.entries())
      if (known != name) other.set(known, value);
    if (!given.contains(name))
      other.set(name, seen.count(name) > 0 ? seen.at(name) : some_value(one.type));
    all.push_back(std::move(other));
  }
  return all;
}

// Whole numbers from the range of each input, over and over.
std::vector<Piece> pieces_of(const OperatorExample& example, const Attributes& attributes) {
  std::vector<Piece> pieces;
  for (std::size_t i = 0; i < example.inputs.size(); ++i) {
    auto [first, last] =
        example.ranges.empty() ? std::pair<std::int64_t, std::int64_t>{-3, 3} : example.ranges[i];
    // The label that the example ignores is none without the attribute that says so.
    if (example.attributes.contains("ignore_index") && !attributes.contains("ignore_index") &&
        example.inputs[i].dtype == DType::kI32)
      first = 0;
    std::vector<double> values(static_cast<std::size_t>(example.inputs[i].shape.elements()));
    for (std::size_t k = 0; k < values.size(); ++k)
      values[k] = static_cast<double>(first + static_cast<std::int64_t>(k) % (last - first + 1));
    pieces.push_back(whole(example.inputs[i], std::move(values)));
  }
  return pieces;
}

std::optional<std::vector<TensorType>> accepted(const OperatorDef& def,
                                                const std::vector<TensorType>& inputs,
                                                const Attributes& attributes) {
  try {
    require_attributes(def, attributes);
    return def.infer(inputs, attributes);
  } catch (const Error& error) {
    CHECK_MESSAGE(error.code() == ErrorCode::kBadInput, (def.kind + ": " + error.what()));
    return std::nullopt;
  }
}

TEST_CASE("attributes that a shape rule accepts run, whichever of them are there") {
  std::size_t changed = 0;
  for (const std::string& kind : builtin_operators().kinds()) {
    const OperatorDef& def = builtin_operators().get(kind);
    if (def.examples == nullptr) continue;
    for (const OperatorExample& example : def.examples())
      for (const Attributes& attributes : variants(def, example.attributes)) {
        const auto outputs = accepted(def, example.inputs, attributes);
        if (!outputs) continue;
        changed += attributes == example.attributes ? 0 : 1;
        std::vector<Piece> made;
        for (const TensorType& type : *outputs) made.push_back(blank(type));
        std::string names;
        for (const auto& [name, value] : attributes.entries()) names += " " + name;
        CHECK_NOTHROW_MESSAGE(run_operator(kind, attributes, pieces_of(example, attributes), made),
                              (kind + " with" + names));
      }
  }
  CHECK(changed > 50);
}

}  // namespace
}  // namespace sextant::attributes_test
