// What the suites over rows run every kind on: its examples, and relatives of them with other
// extents and element types, derived by machine where the operator's shape rule allows it.
#pragma once

#include "core/graphs/operator.h"
#include "tests/conformance/operators/operator_runner.h"
#include "tests/conformance/operators/sharding.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace sextant {

// One operator on global types, with the rows it claims there.
struct SignatureCase {
  const OperatorDef* def = nullptr;
  std::string name;  // "matmul #0 (5x4 f64, 4x3 f64)"
  std::size_t example = 0;
  OperatorExample on;
  std::vector<TensorType> outputs;
  std::vector<SbpSignature> rows;

  bool is_state(std::size_t output) const;
};

// One case per example, in order.
std::vector<SignatureCase> example_cases(const OperatorDef& def);

// The case with every extent e, wherever it stands in an input, replaced by `change(e)`. Nothing
// when that changes nothing or the operator does not accept it: attributes stay as they are.
std::optional<SignatureCase> with_extents(const SignatureCase& original,
                                          const std::function<std::int64_t(std::int64_t)>& change);
// The case with its f64 inputs in another element type; nothing when the operator refuses it.
std::optional<SignatureCase> with_dtype(const SignatureCase& original, DType dtype);

// An extent that ids or labels of the example count up to: fewer would leave some out of range.
bool is_counted(const SignatureCase& on, std::int64_t extent);

// One set of values: inputs, outputs before (state; zeros otherwise) and after the global run.
struct GlobalRun {
  std::vector<Piece> inputs, before, outputs;
};

// Floating inputs get sixteenths with kFractions, whole numbers otherwise; integers of any value
// get some from all over their type with kExtremes.
GlobalRun run_globally(const SignatureCase& on, Shares values, Random& random);

// "S(0) B -> P(sum)".
std::string to_string(const SbpSignature& row);

}  // namespace sextant
